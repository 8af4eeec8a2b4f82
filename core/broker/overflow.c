#include "overflow.h"

#include "overflow_tail.h"
#include "queue.h"
#include "settle.h"
#include "shard/shard.h"
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

/* Of all shards; NULL when there is none, or when it is not in memory. */
static struct entry *first_in(const struct queue *q, enum entry_state state,
			      bool *is_missing)
{
	struct entry *first = NULL;

	for (unsigned i = 0; i < q->shard_count; i++) {
		struct entry *e = shard_head(q->shards[i], state);

		if (!e && shard_count(q->shards[i], state) > 0)
			*is_missing = true;
		if (e && (!first || is_before(e, first, state)))
			first = e;
	}
	return *is_missing ? NULL : first;
}

/* The same of the last one. */
static struct entry *last_in(const struct queue *q, enum entry_state state, bool *is_far)
{
	struct entry *last = NULL;

	for (unsigned i = 0; i < q->shard_count; i++) {
		struct entry *e = shard_tail_entry(q->shards[i], state);

		*is_far |= shard_tail_is_far(q->shards[i], state);
		if (e && (!last || is_before(last, e, state)))
			last = e;
	}
	return *is_far ? NULL : last;
}

/* Ready messages go first, then delayed ones. */
static enum entry_state first_state(const struct queue *q)
{
	return queue_count(q, ENTRY_READY) > 0 ? ENTRY_READY : ENTRY_DELAYED;
}

static void on_trimmed(struct shard *sh, uint64_t count)
{
	struct queue *q = sh->owner;

	q->counters.overflowed += count;
}

static void give_up(struct queue *q, struct entry *e)
{
	settle_entry(e,
		     queue_overflow_is_dead_letter(q->config.overflow)
			     ? FATE_OVERFLOWED_DEAD
			     : FATE_OVERFLOWED,
		     0);
}

/* Messages that go need not be read, unless they are wanted elsewhere, or to be
 * compared with those of other shards. */
static bool trim(struct queue *q, enum entry_state state, bool is_last)
{
	uint64_t excess = queue_limit_excess(q);

	return q->shard_count == 1 && excess > 0 && !fate_is_told(q) &&
	       !queue_overflow_is_dead_letter(q->config.overflow) &&
	       shard_trim(q->shards[0], state, excess, is_last, on_trimmed);
}

static bool trim_last(struct queue *q, enum entry_state state)
{
	return trim(q, state, true);
}

static const struct overflow_tail_ops tail_ops = { trim_last, give_up };

/* Redis alone has the first ones. */
static void bring(struct queue *q, enum entry_state state)
{
	bool is_trimmed = trim(q, state, false);

	for (unsigned i = 0; i < q->shard_count && !is_trimmed; i++)
		shard_front(q->shards[i], state);
	wake_by(q, q->vhost->broker->mono_ms + READ_MS);
}

bool overflow_turn(struct queue *q)
{
	bool is_last = queue_overflow_is_lowest(q->config.overflow);
	const struct queue_limit none = { 0, 0 };
	struct broker *b = q->vhost->broker;

	while (!b->is_draining && queue_limit_has_excess(q, none)) {
		enum entry_state state = first_state(q);
		bool is_missing = false;
		struct entry *e = is_last ? last_in(q, state, &is_missing)
					  : first_in(q, state, &is_missing);

		if (!e && is_last)
			overflow_tail_begin(q, state, &tail_ops);
		else if (!e)
			bring(q, state);
		if (!e)
			return false;
		give_up(q, e);
		if (pace_is_spent(&b->pace, false))
			return true;
	}
	return false;
}
