#include "overflow.h"

#include "dead_letter.h"
#include "queue_limit.h"
#include "wake.h"

#define READ_MS 20 /* until the first messages have been read from Redis */

static bool is_before(const struct entry *a, const struct entry *b,
		      enum entry_state state)
{
	struct place x = { state == ENTRY_READY ? a->rank : (double)a->at_unix_ms,
			   a->id };
	struct place y = { state == ENTRY_READY ? b->rank : (double)b->at_unix_ms,
			   b->id };

	return place_is_before(x, y);
}

/* Of all shards; NULL when there is none, or when it is not in memory yet. */
static struct entry *first_in(const struct queue *q, enum entry_state state,
			      bool *is_reading)
{
	struct entry *first = NULL;

	for (unsigned i = 0; i < q->shard_count; i++) {
		struct entry *e = shard_front(q->shards[i], state);

		if (!e && shard_count(q->shards[i], state) > 0)
			*is_reading = true;
		if (e && (!first || is_before(e, first, state)))
			first = e;
	}
	return *is_reading ? NULL : first;
}

/* The one that would be delivered first: of those that are ready, else of the delayed. */
static struct entry *first_waiting(const struct queue *q, bool *is_reading)
{
	struct entry *first = first_in(q, ENTRY_READY, is_reading);

	return first || *is_reading ? first : first_in(q, ENTRY_DELAYED, is_reading);
}

static void give_up(struct queue *q, struct entry *e)
{
	q->counters.overflowed++;
	if (q->config.overflow == QUEUE_OVERFLOW_DEAD_LETTER)
		dead_letter(e, "maxlen", "overflow");
	else
		shard_remove(e, NULL);
}

bool overflow_turn(struct queue *q)
{
	struct broker *b = q->vhost->broker;
	bool is_reading = false;
	struct entry *e;

	while (!b->is_draining && queue_limit_has_excess(q)) {
		e = first_waiting(q, &is_reading);
		if (!e) {
			wake_by(q, b->mono_ms + READ_MS);
			return false;
		}
		give_up(q, e);
		if (pace_is_spent(&b->pace, false))
			return true;
	}
	return false;
}
