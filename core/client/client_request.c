#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "client.h"

/* A tag that no channel comes to. */
#define NEVER_GIVEN_OUT INT64_MAX

enum {
	REPEATABLE = 1 << 0,     /* to carry it out twice is to carry it out once */
	NOTED = 1 << 1,          /* the records of client_restore.h */
	PUBLISHING = 1 << 2,     /* repeatable with an id; may be part of a transaction */
	SETTLING = 1 << 3,       /* the words begin with tags; likewise */
	BEGINNING = 1 << 4,      /* of a transaction */
	ENDING = 1 << 5,         /* likewise */
	QUITTING = 1 << 6,       /* the connection is to end */
	IN_TRANSACTION = 1 << 7, /* of a request: lost with its connection */
};

static const struct {
	const char *name;
	unsigned traits;
} verbs[] = {
	{ "PUB", PUBLISHING },
	{ "ACK", SETTLING },
	{ "NACK", SETTLING },
	{ "TOUCH", SETTLING },
	{ "BEGIN", BEGINNING },
	{ "COMMIT", ENDING },
	{ "ROLLBACK", ENDING },
	{ "OPEN", REPEATABLE | NOTED },
	{ "CLOSE", REPEATABLE | NOTED },
	{ "DECLARE", REPEATABLE | NOTED },
	{ "DELETE", NOTED },
	{ "BIND", REPEATABLE | NOTED },
	{ "UNBIND", REPEATABLE | NOTED },
	{ "SUB", REPEATABLE | NOTED },
	{ "UNSUB", REPEATABLE | NOTED },
	/* Messages that a GET took over the lost connection have gone back. */
	{ "GET", REPEATABLE },
	{ "PING", REPEATABLE },
	{ "HELP", REPEATABLE },
	{ "PEEK", REPEATABLE },
	{ "FIND", REPEATABLE },
	{ "LIST", REPEATABLE },
	{ "STATS", REPEATABLE },
	{ "EXPLAIN", REPEATABLE },
	{ "CHECK", REPEATABLE },
	{ "QUIT", QUITTING },
};

struct pending {
	TAILQ_ENTRY(pending) link;
	tidemq_reply_fn on_reply;
	void *ctx;
	unsigned traits;
	bool is_own; /* the library's: after a loss nothing is called */
	/* The request as it was sent, if it is kept or noted. */
	size_t len;
	char bytes[];
};
TAILQ_HEAD(pending_list, pending);

struct client_channel {
	unsigned number;
	struct pending_list pending; /* sent over this connection */
	struct pending_list kept;    /* to be sent over the next one */
	uint64_t tag_base;           /* tags of lost connections end here */
	uint64_t tag_top;            /* the highest that the caller has seen */
	bool in_transaction;
	bool transaction_is_lost; /* and the caller has not ended it yet */
	UT_hash_handle hh;
};

static struct client_channel *get_channel(struct tidemq_client *c, unsigned number)
{
	struct client_channel *channel;

	HASH_FIND_INT(c->channels, &number, channel);
	if (channel)
		return channel;
	channel = mem_zalloc(sizeof(*channel));
	channel->number = number;
	TAILQ_INIT(&channel->pending);
	TAILQ_INIT(&channel->kept);
	HASH_ADD_INT(c->channels, number, channel);
	return channel;
}

static unsigned find_traits(struct slice verb)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strlen(verbs[i].name) == verb.len &&
		    strncasecmp(verbs[i].name, verb.data, verb.len) == 0)
			return verbs[i].traits;
	return 0;
}

static bool is_kept(unsigned traits)
{
	return traits & REPEATABLE ||
	       (traits & (PUBLISHING | IN_TRANSACTION)) == PUBLISHING;
}

/* The line of what was sent, without @channel and line end. */
static struct slice sent_line(const struct pending *p)
{
	struct slice all = { p->bytes, p->len };
	struct slice line = { p->bytes, slice_find(all, '\r') };

	if (slice_has_prefix(line, "@"))
		slice_cut(&line, ' ');
	return line;
}

static void expect_reply_take(struct tidemq_client *c, struct client_channel *channel,
			      struct pending *p)
{
	if (is_kept(p->traits))
		c->kept_bytes += p->len;
	TAILQ_INSERT_TAIL(c->state == CLIENT_UP || p->is_own ? &channel->pending
							     : &channel->kept,
			  p, link);
	c->in_flight++;
}

/* With the bytes of a request, the last `len` of `out`. NULL: no memory. */
static struct pending *try_create_pending(const struct tidemq_client *c, size_t len,
					  tidemq_reply_fn on_reply, void *ctx)
{
	struct pending *p = mem_try_alloc(sizeof(*p) + len);

	if (!p)
		return NULL;
	*p = (struct pending){ .on_reply = on_reply, .ctx = ctx, .len = len };
	if (len)
		memcpy(p->bytes, c->out.data + c->out.end - len, len);
	return p;
}

static void remove_pending(struct tidemq_client *c, struct pending_list *from,
			   struct pending *p)
{
	TAILQ_REMOVE(from, p, link);
	c->in_flight--;
	if (is_kept(p->traits))
		c->kept_bytes -= p->len;
}

static void answer_take(struct tidemq_client *c, struct pending *p,
			const struct tidemq_reply *reply)
{
	if (p->on_reply)
		p->on_reply(c, reply, p->ctx);
	mem_free(p);
}

struct tidemq_reply client_request_failed_reply(const struct tidemq_error *err)
{
	return (struct tidemq_reply){ .status = err->status,
				      .word = err->word,
				      .text = err->text,
				      .len = strlen(err->text) };
}

bool client_request_answer(struct tidemq_client *c, unsigned number,
			   const struct tidemq_reply *reply)
{
	struct client_channel *channel = get_channel(c, number);
	struct pending *p = TAILQ_FIRST(&channel->pending);

	if (!p)
		return false;
	remove_pending(c, &channel->pending, p);
	if (reply->status == TIDEMQ_OK && p->traits & NOTED)
		client_restore_note(&c->restore, number, sent_line(p),
				    (struct slice){ reply->text, reply->len });
	if (reply->status != TIDEMQ_OK && p->traits & BEGINNING &&
	    strcmp(reply->word, "exists") != 0)
		channel->in_transaction = false;
	answer_take(c, p, reply);
	return true;
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct tidemq_client *c = prepare->data;

	uv_prepare_stop(prepare);
	client_connect_flush(c);
}

/* Everything that is sent in this turn of the loop leaves in one write. */
static void flush_soon(struct tidemq_client *c)
{
	if (!uv_is_active((uv_handle_t *)&c->flusher))
		uv_prepare_start(&c->flusher, on_prepare);
}

int client_request_check(struct tidemq_client *c, bool is_kept_then)
{
	if (c->state > CLIENT_UP) {
		c->error = c->loss;
		return TIDEMQ_ECLOSED;
	}
	if (!c->was_up)
		return client_fail(&c->error, TIDEMQ_EBUSY,
				   "the client is not connected yet");
	if (c->state != CLIENT_UP && !is_kept_then)
		return client_fail(&c->error, TIDEMQ_EBUSY,
				   "the connection was lost, and is not restored yet");
	if (c->in_flight >= c->options.window)
		return client_fail(
			&c->error, TIDEMQ_EBUSY,
			"%u requests are unanswered, as many as the window allows",
			c->in_flight);
	if (buf_len(&c->out) > CLIENT_REQUEST_BYTES_MAX)
		return client_fail(&c->error, TIDEMQ_EBUSY,
				   "the broker does not read: the output buffer is full");
	if (c->kept_bytes > CLIENT_REQUEST_BYTES_MAX)
		return client_fail(&c->error, TIDEMQ_EBUSY,
				   "%zu bytes wait for a reply, and the library keeps %d",
				   c->kept_bytes, CLIENT_REQUEST_BYTES_MAX);
	return TIDEMQ_OK;
}

bool client_request_has_room(const struct tidemq_client *c)
{
	return c->state == CLIENT_UP && c->in_flight <= c->options.window / 2 &&
	       buf_len(&c->out) <= CLIENT_REQUEST_BYTES_MAX &&
	       c->kept_bytes <= CLIENT_REQUEST_BYTES_MAX;
}

void client_request_send_own(struct tidemq_client *c, unsigned channel, struct buf *line,
			     tidemq_reply_fn on_reply, void *ctx)
{
	struct pending *p = mem_zalloc(sizeof(*p));

	*p = (struct pending){ .on_reply = on_reply, .ctx = ctx, .is_own = true };
	buf_append_slice(&c->out, buf_slice(line));
	buf_append_text(&c->out, "\r\n");
	expect_reply_take(c, get_channel(c, channel), p);
	flush_soon(c);
}

uint64_t client_request_see_tag(struct tidemq_client *c, unsigned number, uint64_t tag)
{
	struct client_channel *channel = get_channel(c, number);

	tag += channel->tag_base;
	if (tag > channel->tag_top)
		channel->tag_top = tag;
	return tag;
}

static int refuse_stale(struct tidemq_client *c)
{
	return client_fail_refused(&c->error, SLICE("lease-lost"),
				   SLICE("the message came over a connection that was "
					 "lost: the broker has given it back"));
}

/* "7" or "3-9" as the broker has it. False: the message came over a lost connection. */
static bool map_tag(const struct client_channel *channel, struct slice word,
		    struct buf *out)
{
	struct slice last = word, first = slice_cut(&last, '-');
	uint64_t from, to;

	if (!slice_to_uint(first, UINT64_MAX, &from) ||
	    (last.len > 0 && !slice_to_uint(last, UINT64_MAX, &to))) {
		buf_append_slice(out, word);
		return true;
	}
	if (last.len == 0)
		to = from;
	else if (from <= channel->tag_base)
		from = channel->tag_base + 1;
	if (from <= channel->tag_base || to <= channel->tag_base)
		return false;
	buf_append_uint(out, from - channel->tag_base);
	if (last.len > 0) {
		buf_append_char(out, '-');
		buf_append_uint(out, to - channel->tag_base);
	}
	return true;
}

/* Write a line that settles messages with the tags that the broker knows. */
static int map_tags(struct tidemq_client *c, const struct client_channel *channel,
		    const struct encode_line *line, struct buf *out)
{
	struct slice words = line->words;
	const char *verb_end = line->verb.data + line->verb.len;

	buf_append(out, line->text.data, (size_t)(verb_end - line->text.data));
	while (words.len > 0) {
		buf_append_char(out, ' ');
		if (map_tag(channel, slice_cut(&words, ' '), out))
			continue;
		if (!channel->in_transaction)
			return refuse_stale(c);
		/* The broker has to learn that the transaction has failed. */
		buf_append_uint(out, NEVER_GIVEN_OUT);
	}
	return TIDEMQ_OK;
}

/* A transaction ends with its connection: what the caller still sends for it must not be
 * carried out by itself. */
static int check_transaction(struct tidemq_client *c, struct client_channel *channel,
			     unsigned traits)
{
	if (!channel->transaction_is_lost)
		return TIDEMQ_OK;
	if (traits & (BEGINNING | ENDING))
		channel->transaction_is_lost = false;
	if (traits & (ENDING | PUBLISHING | SETTLING))
		return client_fail(&c->error, TIDEMQ_ELOST,
				   "the transaction was lost with its connection, and "
				   "nothing of it was carried out: begin again");
	return TIDEMQ_OK;
}

/* A message with an id would be durable whatever it says. */
static bool takes_no_id(struct slice words)
{
	slice_cut(&words, ' ');
	slice_cut(&words, ' ');
	while (words.len > 0) {
		struct slice word = slice_cut(&words, ' ');

		if (slice_has_prefix(word, "id=") || slice_is(word, "durable=0"))
			return true;
	}
	return false;
}

/* Append the request to `out`, as the next connection may need it. */
static int encode_repeatable(struct tidemq_client *c, struct client_channel *channel,
			     const struct encode_line *line, struct slice payload,
			     unsigned traits)
{
	char id[40];
	struct buf mapped = { 0 };
	struct encode_line other = *line;
	bool needs_id =
		traits & PUBLISHING && is_kept(traits) && !takes_no_id(line->words);
	int rc = TIDEMQ_OK;

	if (traits & SETTLING && channel->tag_base > 0) {
		rc = map_tags(c, channel, line, &mapped);
		other.text = buf_slice(&mapped);
	}
	if (needs_id)
		snprintf(id, sizeof(id), "%016" PRIx64 "-%" PRIu64, c->id_prefix,
			 c->next_id++);
	if (rc == TIDEMQ_OK)
		rc = encode_request(&c->out, &other, needs_id ? id : NULL, payload,
				    &c->error);
	buf_deinit(&mapped);
	return rc;
}

int tidemq_send(struct tidemq_client *c, const char *text, const void *payload,
		size_t payload_len, tidemq_reply_fn on_reply, void *ctx)
{
	const struct slice body = { payload, payload_len };
	struct encode_line line;
	struct client_channel *channel;
	size_t before = buf_len(&c->out), len;
	struct pending *p;
	unsigned traits;
	int rc = encode_inspect(slice_from(text), &line, &c->error);

	if (rc != TIDEMQ_OK)
		return rc;
	/* Without the option `reconnect` nothing is kept, noted or mapped. */
	traits = c->options.reconnect ? find_traits(line.verb) : 0;
	channel = get_channel(c, line.channel);
	if (channel->in_transaction && traits & (PUBLISHING | SETTLING))
		traits |= IN_TRANSACTION;
	rc = c->state > CLIENT_UP ? TIDEMQ_OK : check_transaction(c, channel, traits);
	if (rc == TIDEMQ_OK)
		rc = client_request_check(c, traits & PUBLISHING);
	if (rc == TIDEMQ_OK)
		rc = encode_repeatable(c, channel, &line, body, traits);
	if (rc != TIDEMQ_OK)
		return rc;
	len = buf_len(&c->out) - before;
	p = try_create_pending(c, is_kept(traits) || traits & NOTED ? len : 0, on_reply,
			       ctx);
	/* Without a connection the next one gets it from what is kept. */
	if (!p || c->state != CLIENT_UP)
		c->out.end -= len;
	if (!p)
		return client_fail(&c->error, TIDEMQ_ENOMEM,
				   "no memory to keep a request of %zu bytes", len);
	p->traits = traits;
	expect_reply_take(c, channel, p);
	if (traits & (BEGINNING | ENDING))
		channel->in_transaction = traits & BEGINNING;
	c->is_quitting |= (traits & QUITTING) != 0;
	flush_soon(c);
	return TIDEMQ_OK;
}

int tidemq_send_publication(struct tidemq_client *c, unsigned channel,
			    const struct tidemq_publication *p, tidemq_reply_fn on_reply,
			    void *ctx)
{
	struct buf line = { 0 };
	int rc = encode_publication(&line, channel, p, &c->error);

	if (rc == TIDEMQ_OK)
		rc = tidemq_send(c, buf_cstr(&line), p->payload, p->payload_len, on_reply,
				 ctx);
	buf_deinit(&line);
	return rc;
}

/* Take all requests out of a channel that are not to be sent again. */
static void take_failed(struct tidemq_client *c, struct client_channel *channel,
			struct pending_list *failed)
{
	struct pending_list sent = TAILQ_HEAD_INITIALIZER(sent);
	struct pending *p;

	TAILQ_CONCAT(&sent, &channel->pending, link);
	/* Requests that were kept before stay behind those that were sent before them. */
	TAILQ_CONCAT(&sent, &channel->kept, link);
	while ((p = TAILQ_FIRST(&sent))) {
		if (is_kept(p->traits)) {
			TAILQ_REMOVE(&sent, p, link);
			TAILQ_INSERT_TAIL(&channel->kept, p, link);
			continue;
		}
		remove_pending(c, &sent, p);
		/* The thing may have been deleted, and the caller wants it to be. */
		if (p->traits & NOTED)
			client_restore_note(&c->restore, channel->number, sent_line(p),
					    SLICE(""));
		TAILQ_INSERT_TAIL(failed, p, link);
	}
}

static void answer_all(struct tidemq_client *c, struct pending_list *failed,
		       const struct tidemq_error *err)
{
	const struct tidemq_reply reply = client_request_failed_reply(err);
	struct pending *p;

	while ((p = TAILQ_FIRST(failed))) {
		TAILQ_REMOVE(failed, p, link);
		if (p->is_own)
			mem_free(p);
		else
			answer_take(c, p, &reply);
	}
}

void client_request_lose(struct tidemq_client *c)
{
	struct pending_list failed = TAILQ_HEAD_INITIALIZER(failed);
	struct client_channel *channel, *next;
	struct tidemq_error err = c->loss;

	HASH_ITER (hh, c->channels, channel, next) {
		channel->tag_base = channel->tag_top;
		channel->transaction_is_lost |= channel->in_transaction;
		channel->in_transaction = false;
		take_failed(c, channel, &failed);
	}
	err.status = TIDEMQ_ELOST;
	answer_all(c, &failed, &err);
}

void client_request_fail_all(struct tidemq_client *c)
{
	struct pending_list failed = TAILQ_HEAD_INITIALIZER(failed);
	struct client_channel *channel, *next;
	struct tidemq_error err = c->loss;

	HASH_ITER (hh, c->channels, channel, next) {
		TAILQ_CONCAT(&failed, &channel->pending, link);
		TAILQ_CONCAT(&failed, &channel->kept, link);
	}
	c->in_flight = 0;
	c->kept_bytes = 0;
	err.status = TIDEMQ_ECLOSED;
	answer_all(c, &failed, &err);
}

void client_request_send_kept(struct tidemq_client *c)
{
	struct client_channel *channel, *next;
	struct pending *p;

	HASH_ITER (hh, c->channels, channel, next) {
		TAILQ_FOREACH (p, &channel->kept, link)
			buf_append(&c->out, p->bytes, p->len);
		TAILQ_CONCAT(&channel->pending, &channel->kept, link);
	}
	flush_soon(c);
}

static void withdraw_from(struct tidemq_client *c, struct pending_list *list,
			  const void *ctx)
{
	struct pending *p, *next;

	for (p = TAILQ_FIRST(list); p; p = next) {
		next = TAILQ_NEXT(p, link);
		if (p->ctx != ctx || p->is_own)
			continue;
		remove_pending(c, list, p);
		mem_free(p);
	}
}

void client_request_withdraw(struct tidemq_client *c, const void *ctx)
{
	struct client_channel *channel, *next;

	HASH_ITER (hh, c->channels, channel, next) {
		withdraw_from(c, &channel->pending, ctx);
		withdraw_from(c, &channel->kept, ctx);
	}
}

void client_request_free(struct tidemq_client *c)
{
	struct client_channel *channel, *next;

	HASH_ITER (hh, c->channels, channel, next) {
		HASH_DEL(c->channels, channel);
		mem_free(channel);
	}
}
