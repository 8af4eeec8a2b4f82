#include "overflow.h"

#include "dead_letter.h"
#include "queue_limit.h"
#include "retry.h"
#include "settlement.h"
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

/* Those that would be delivered first: what is ready, else what is delayed. */
static enum entry_state first_state(const struct queue *q)
{
	return queue_count(q, ENTRY_READY) > 0 ? ENTRY_READY : ENTRY_DELAYED;
}

static void on_trimmed(struct shard *sh, uint64_t count)
{
	struct queue *q = sh->owner;

	q->counters.overflowed += count;
}

/* Redis alone has the first ones. They go unread, unless they are wanted elsewhere, or
 * have to be compared with those of other shards. */
static void bring(struct queue *q, enum entry_state state)
{
	uint64_t excess = queue_limit_excess(q);

	bool is_trimmed = q->shard_count == 1 && excess > 0 &&
			  q->config.overflow == QUEUE_OVERFLOW_DROP_HEAD &&
			  !settlement_is_told(q) &&
			  shard_trim(q->shards[0], state, excess, on_trimmed);

	for (unsigned i = 0; i < q->shard_count && !is_trimmed; i++)
		shard_front(q->shards[i], state);
	wake_by(q, q->vhost->broker->mono_ms + READ_MS);
}

static void drop(struct entry *e)
{
	static const struct retry_fate fate = { .action = RETRY_DROP,
						.reason = "maxlen" };

	retry_tell(e, &fate);
	if (settlement_is_told(entry_queue(e)))
		settlement_drop(e, "maxlen", NULL);
	else
		shard_remove(e, NULL);
}

static void send_dead(struct entry *e, const struct settlement *s)
{
	const struct dead_letter_facts facts = { .reason = s->fate.reason,
						 .rule = s->fate.rule,
						 .attempts = e->failures };

	dead_letter(e, &facts);
}

static void move_away(struct entry *e)
{
	static const struct settlement s = { .fate = { .action = RETRY_DEAD_LETTER,
						       .reason = "maxlen",
						       .rule = "overflow" },
					     .finish = send_dead };

	if (settlement_is_told(entry_queue(e)))
		settlement_run(e, &s);
	else
		send_dead(e, &s);
}

static void give_up(struct queue *q, struct entry *e)
{
	q->counters.overflowed++;
	if (q->config.overflow == QUEUE_OVERFLOW_DEAD_LETTER)
		move_away(e);
	else
		drop(e);
}

bool overflow_turn(struct queue *q)
{
	struct broker *b = q->vhost->broker;

	while (!b->is_draining && queue_limit_has_excess(q)) {
		enum entry_state state = first_state(q);
		bool is_missing = false;
		struct entry *e = first_in(q, state, &is_missing);

		if (!e) {
			bring(q, state);
			return false;
		}
		give_up(q, e);
		if (pace_is_spent(&b->pace, false))
			return true;
	}
	return false;
}
