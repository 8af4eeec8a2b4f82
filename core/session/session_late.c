#include "session_late.h"

#include <stdlib.h>

#include "base/mem.h"
#include "broker/group_settle.h"
#include "session_private.h"

/* An ACK until all queues have been asked. */
struct late {
	struct reply *reply;
	uint64_t count;
	uint64_t first; /* the first late tag */
	unsigned left;  /* queues that are asked, and one while they are begun */
	struct error err;
};

/* A message of a queue. */
struct late_message {
	uint64_t queue, id;
};

struct lapsed_item *session_late_first(struct channel *ch, const struct tag_range *range)
{
	struct lapsed_item *item = lapsed_from(&ch->lapsed, range->first);

	return item && item->tag <= range->last ? item : NULL;
}

static void late_done(struct late *late)
{
	if (--late->left > 0)
		return;
	if (late->count == 0 && late->err.code == TIDE_OK)
		error_set(
			&late->err, TIDE_ELEASE,
			"tag %llu is no longer held: its lease ended, and somebody else "
			"has its message or has settled it",
			(unsigned long long)late->first);
	if (late->count > 0)
		reply_count(late->reply, late->count);
	else
		reply_error(late->reply, &late->err);
	mem_free(late);
}

static void on_acked(void *ctx, uint64_t count, const struct error *err)
{
	struct late *late = ctx;

	late->count += count;
	if (err->code < 0)
		late->err = *err;
	late_done(late);
}

static bool ack_record(struct channel *ch, const struct lapsed_item *item)
{
	struct queue *q = queue_by_serial(ch->session->broker, item->queue);
	struct topic_group *g = q ? group_find(q->topic, slice_from(item->group)) : NULL;
	struct group_claim *gc = g && item->partition < group_width(g)
					 ? group_claim(g, item->partition)
					 : NULL;
	const struct holder *own = ch->session->is_beside ? NULL : &ch->holder;
	uint64_t tag;

	if (!gc || !group_settle_ack_late(gc, item->offset, own, &tag))
		return false;
	if (tag)
		lapsed_add_done(&ch->lapsed, tag);
	return true;
}

static int compare_queues(const void *a, const void *b)
{
	const struct late_message *x = a, *y = b;

	return (x->queue > y->queue) - (x->queue < y->queue);
}

/* Those of the same queue as the first. Gives how many. */
static size_t ack_queue(struct late *late, const struct late_message *messages,
			size_t count, struct broker *b)
{
	struct queue *q = queue_by_serial(b, messages[0].queue);
	uint64_t *ids = mem_alloc(count * sizeof(*ids));
	size_t n = 0;

	for (; n < count && messages[n].queue == messages[0].queue; n++)
		ids[n] = messages[n].id;
	if (q) {
		late->left++;
		session_by_id_ack(q, &(struct by_id_ack){ ids, (unsigned)n, late->reply,
							  on_acked, late });
	}
	mem_free(ids);
	return n;
}

/* Whoever acknowledges is at work: it gets more than one message again. */
static void revive(struct channel *ch)
{
	struct subscription *sub;

	TAILQ_FOREACH (sub, &ch->subscriptions, channel_link) {
		sub->consumer.lease.is_stalled = false;
		consumer_update(&sub->consumer);
	}
}

void session_late_ack(struct channel *ch, const struct settle_spec *spec, uint64_t count,
		      struct reply *r)
{
	struct late *late = mem_alloc(sizeof(*late));
	struct late_message *messages =
		mem_alloc((ch->lapsed.count + 1) * sizeof(*messages));
	struct broker *b = ch->session->broker;
	struct lapsed_item *item;
	size_t n = 0;

	*late = (struct late){ .reply = r, .count = count, .left = 1 };
	for (size_t i = 0; i < spec->count; i++)
		while ((item = session_late_first(ch, &spec->ranges[i])) != NULL) {
			if (!late->first)
				late->first = item->tag;
			if (item->id)
				messages[n++] =
					(struct late_message){ item->queue, item->id };
			else if (!item->queue || ack_record(ch, item))
				late->count++;
			lapsed_remove(&ch->lapsed, item);
		}
	revive(ch);
	qsort(messages, n, sizeof(*messages), compare_queues);
	for (size_t at = 0; at < n;)
		at += ack_queue(late, messages + at, n - at, b);
	mem_free(messages);
	late_done(late);
}
