#include "stomp_channel.h"

#include <inttypes.h>

#include "base/mem.h"

/* Then the bytes of the three, in this order. */
struct owed_head {
	uint8_t verb;
	bool is_part, is_kept;
	const char *word;
	uint32_t receipt_len, kept_len, sentence_len;
};

static void add(struct stomp *l, unsigned number)
{
	if (number >= l->channel_cap) {
		unsigned cap = l->channel_cap ? 2 * l->channel_cap : 4;

		l->channels =
			mem_realloc(l->channels, cap * sizeof(struct stomp_channel *));
		memset(l->channels + l->channel_cap, 0,
		       (cap - l->channel_cap) * sizeof(struct stomp_channel *));
		l->channel_cap = cap;
	}
	l->channels[number] = mem_zalloc(sizeof(struct stomp_channel));
	l->channels[number]->number = number;
}

static void drop(struct stomp *l, struct stomp_channel *ch)
{
	l->channels[ch->number] = NULL;
	buf_deinit(&ch->owed);
	buf_deinit(&ch->subscription);
	buf_deinit(&ch->origin);
	mem_free((char *)ch->id.data);
	mem_free((char *)ch->destination.data);
	mem_free(ch->queue);
	mem_free(ch);
}

void stomp_channel_init(struct stomp *l)
{
	add(l, 0);
}

void stomp_channel_deinit(struct stomp *l)
{
	for (unsigned i = 0; i < l->channel_cap; i++)
		if (l->channels[i])
			drop(l, l->channels[i]);
	mem_free(l->channels);
	l->channels = NULL;
	l->channel_cap = 0;
}

/* Those of subscriptions that have ended, and whose messages are settled by now. */
static void release_ended(struct stomp *l, const struct stomp_frame *f)
{
	for (unsigned i = 1; i < l->channel_cap; i++)
		if (l->channels[i] && l->channels[i]->is_ended)
			stomp_channel_release(l, l->channels[i], f);
}

int stomp_channel_open(struct stomp *l, struct stomp_frame *f, struct stomp_channel **out)
{
	unsigned number = 1;
	struct stomp_channel *opened;
	struct channel *ch;

	release_ended(l, f);
	while (number < l->channel_cap && l->channels[number])
		number++;
	f->rc = session_open(l->base.session, number, &ch, f->err);
	if (f->rc < 0)
		return f->rc;
	add(l, number);
	opened = l->channels[number];
	opened->serial = ++l->last_serial;
	buf_printf(&opened->origin, "-%" PRIu64 "-%" PRIu64 "-",
		   session_facts(l->base.session).number, opened->serial);
	*out = opened;
	return TIDE_OK;
}

struct stomp_channel *stomp_channel_find(struct stomp *l, struct slice id)
{
	for (unsigned i = 1; i < l->channel_cap; i++)
		if (l->channels[i] && !l->channels[i]->is_ended &&
		    slice_is_equal(l->channels[i]->id, id))
			return l->channels[i];
	return NULL;
}

struct stomp_channel *stomp_channel_find_serial(struct stomp *l, uint64_t serial)
{
	for (unsigned i = 1; i < l->channel_cap; i++)
		if (l->channels[i] && !l->channels[i]->is_closing &&
		    l->channels[i]->serial == serial)
			return l->channels[i];
	return NULL;
}

void stomp_channel_release(struct stomp *l, struct stomp_channel *ch,
			   const struct stomp_frame *f)
{
	struct channel *of_session = stomp_channel_session(l, ch);

	if (ch->is_closing || session_held_any(of_session))
		return;
	ch->is_closing = true;
	session_close_channel(of_session, stomp_channel_part(l, ch, f));
}

void stomp_channel_owe(struct stomp_channel *ch, const struct stomp_owed *owed)
{
	const struct owed_head head = {
		.verb = (uint8_t)owed->verb,
		.is_part = owed->is_part,
		.is_kept = owed->is_kept,
		.receipt_len = (uint32_t)owed->receipt.len,
		.kept_len = (uint32_t)owed->kept.len,
	};

	ch->last_owed_len = sizeof(head) + owed->receipt.len + owed->kept.len;
	buf_append(&ch->owed, &head, sizeof(head));
	buf_append_slice(&ch->owed, owed->receipt);
	buf_append_slice(&ch->owed, owed->kept);
}

void stomp_channel_explain(struct stomp_channel *ch, const char *word,
			   struct slice sentence)
{
	char *at = ch->owed.data + ch->owed.end - ch->last_owed_len;
	struct owed_head head;

	memcpy(&head, at, sizeof(head));
	head.word = word;
	head.sentence_len = (uint32_t)sentence.len;
	memcpy(at, &head, sizeof(head));
	buf_append_slice(&ch->owed, sentence);
}

/* The next part of a record. */
static struct slice take_part(struct slice *rest, size_t len)
{
	struct slice part = { len ? rest->data : NULL, len };

	*rest = slice_skip(*rest, len);
	return part;
}

struct stomp_owed stomp_channel_pay(struct stomp_channel *ch)
{
	struct slice all = buf_slice(&ch->owed), rest;
	struct owed_head head;
	struct stomp_owed owed;

	memcpy(&head, all.data, sizeof(head));
	rest = slice_skip(all, sizeof(head));
	owed = (struct stomp_owed){
		.verb = (enum stomp_verb)head.verb,
		.is_part = head.is_part,
		.is_kept = head.is_kept,
		.word = head.word,
	};
	owed.receipt = take_part(&rest, head.receipt_len);
	owed.kept = take_part(&rest, head.kept_len);
	owed.sentence = take_part(&rest, head.sentence_len);
	/* The bytes stay until the next one is owed. */
	buf_consume(&ch->owed, all.len - rest.len);
	return owed;
}

static struct reply *owe(struct stomp *l, struct stomp_channel *ch,
			 const struct stomp_frame *f, bool is_part)
{
	const struct stomp_owed owed = {
		.verb = f->verb,
		.is_part = is_part,
		.receipt = stomp_frame_header(f, STOMP_H_RECEIPT),
	};

	stomp_channel_owe(ch, &owed);
	return reply_create(stomp_channel_session(l, ch), false);
}

struct reply *stomp_channel_reply(struct stomp *l, struct stomp_channel *ch,
				  const struct stomp_frame *f)
{
	return owe(l, ch, f, false);
}

struct reply *stomp_channel_part(struct stomp *l, struct stomp_channel *ch,
				 const struct stomp_frame *f)
{
	return owe(l, ch, f, true);
}

int stomp_channel_fail(struct stomp_channel *ch, struct stomp_frame *f, struct reply *r)
{
	f->is_told = true;
	stomp_channel_explain(ch, f->word, f->sentence);
	reply_error(r, f->err);
	return f->rc;
}

void stomp_channel_settle(struct stomp *l, struct stomp_channel *ch)
{
	if (ch->is_closing && buf_len(&ch->owed) == 0)
		drop(l, ch);
}
