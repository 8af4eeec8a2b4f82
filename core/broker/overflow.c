#include "overflow.h"

#include <stdlib.h>

#include "base/container.h"
#include "base/mem.h"
#include "queue.h"
#include "settle.h"
#include "shard/shard.h"

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

/* The last messages of a queue that is over a limit, when Redis has
 * some of them.
 *
 * If they need not be read, they are trimmed. Else Redis is asked for the last places of
 * each shard; memory knows those of messages that come back and are not written yet. Of
 * all of them the last ones are taken by their ids, as many as are too much, and given
 * up. That is a round; as long as there is too much, the next turn begins another one. */

#define ROUND_MAX 1024 /* messages: some 100 KiB of ids */
#define REST_MS 20     /* until what is in the way has changed its place */
#define RETRY_MS 500   /* after a read that failed */

struct overflow_row {
	struct place place;
	unsigned part;
};

/* Of one shard. */
struct overflow_part {
	struct shard_ask ask;
	struct overflow_tail *tail;
	size_t first_unsettled, end_unsettled; /* rows that are memory's */
};

struct overflow_tail {
	struct broker *broker;
	uint64_t serial; /* of the queue */
	enum entry_state state;
	struct waiter waiter; /* of the reads, then of the asks */
	unsigned given_up;
	unsigned part_count;
	struct overflow_part *parts;
	unsigned most; /* rows of a part, and of what is to go */
	uint64_t *ids; /* of all parts, `most` of each */
	struct overflow_row *rows;
	size_t row_count, row_cap;
};

/* NULL: it is gone. */
static struct queue *queue_of(const struct overflow_tail *t)
{
	return queue_by_serial(t->broker, t->serial);
}

static void free_tail(struct overflow_tail *t)
{
	for (unsigned i = 0; i < t->part_count; i++)
		shard_unref(t->parts[i].ask.shard);
	mem_free(t->parts);
	mem_free(t->ids);
	mem_free(t->rows);
	mem_free(t);
}

static void rest(struct queue *q, int64_t ms)
{
	q->tail_due_ms = q->vhost->broker->mono_ms + ms;
	queue_wake_by(q, q->tail_due_ms);
}

/* @param rest_ms  until the next round; 0: none has to wait for anything */
static void end_round(struct overflow_tail *t, int64_t rest_ms)
{
	struct queue *q = queue_of(t);

	if (q)
		q->has_tail = false;
	if (q && rest_ms)
		rest(q, rest_ms);
	else if (q)
		queue_activate(q);
	free_tail(t);
}

/* One that was taken out of Redis does not count any more. */
static bool is_too_much(const struct queue *q, const struct entry *e)
{
	struct queue_limit more = { 0, 0 };

	if (e->state == ENTRY_MOVING)
		more = (struct queue_limit){ 1, e->msg->payload_len };
	return queue_limit_has_excess(q, more);
}

/* One that is in another state, though Redis does not know it yet, is left alone. */
static bool on_entry(struct shard_ask *ask, struct entry *e, enum entry_state state)
{
	struct overflow_tail *t = container_of(ask, struct overflow_part, ask)->tail;
	struct queue *q = queue_of(t);

	if (!q || state != t->state || t->broker->is_draining || !is_too_much(q, e))
		return false;
	t->given_up++;
	give_up(q, e);
	return true;
}

static void on_ask_end(struct shard_ask *ask, int status, const char *text)
{
	struct overflow_tail *t = container_of(ask, struct overflow_part, ask)->tail;

	waiter_done(&t->waiter, status, text);
}

static void on_all_asked(struct waiter *w)
{
	struct overflow_tail *t = container_of(w, struct overflow_tail, waiter);

	end_round(t, w->status < 0 ? RETRY_MS : t->given_up ? 0 : REST_MS);
}

static int compare_rows(const void *a, const void *b)
{
	struct place x = ((const struct overflow_row *)a)->place,
		     y = ((const struct overflow_row *)b)->place;

	return place_is_before(x, y) ? 1 : place_is_before(y, x) ? -1 : 0;
}

static void ask_for_last(struct overflow_tail *t)
{
	waiter_init(&t->waiter, on_all_asked);
	qsort(t->rows, t->row_count, sizeof(*t->rows), compare_rows);
	for (size_t i = 0; i < t->row_count && i < t->most; i++) {
		struct shard_ask *ask = &t->parts[t->rows[i].part].ask;

		ask->ids[ask->count++] = t->rows[i].place.id;
	}
	for (unsigned i = 0; i < t->part_count; i++) {
		struct shard_ask *ask = &t->parts[i].ask;

		if (ask->count == 0 || ask->shard->is_closed)
			continue;
		waiter_add(&t->waiter);
		shard_take_ask(ask);
	}
	waiter_done(&t->waiter, TIDE_OK, NULL);
}

static void on_all_read(struct waiter *w)
{
	struct overflow_tail *t = container_of(w, struct overflow_tail, waiter);

	if (w->status < 0)
		end_round(t, RETRY_MS);
	else
		ask_for_last(t);
}

static void add_row(struct overflow_tail *t, struct place place, unsigned part)
{
	MEM_GROW(t->rows, t->row_count, t->row_cap, 64);
	t->rows[t->row_count++] = (struct overflow_row){ place, part };
}

/* Redis has it by another place than memory, which is right. */
static bool is_unsettled(const struct overflow_part *p, uint64_t id)
{
	for (size_t i = p->first_unsettled; i < p->end_unsettled; i++)
		if (p->tail->rows[i].place.id == id)
			return true;
	return false;
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct overflow_part *p = ctx;
	struct overflow_tail *t = p->tail;

	for (size_t i = 0; i < count; i++)
		if (!is_unsettled(p, rows[i].id))
			add_row(t, place_of_row(&rows[i]), (unsigned)(p - t->parts));
	waiter_done(&t->waiter, status, text);
}

static struct overflow_tail *create_tail(struct queue *q, unsigned most)
{
	struct overflow_tail *t = mem_zalloc(sizeof(*t));

	t->broker = q->vhost->broker;
	t->serial = q->serial;
	t->most = most;
	t->part_count = q->shard_count;
	t->parts = mem_zalloc(t->part_count * sizeof(*t->parts));
	t->ids = mem_alloc((size_t)t->part_count * most * sizeof(*t->ids));
	for (unsigned i = 0; i < t->part_count; i++) {
		struct overflow_part *p = &t->parts[i];

		p->tail = t;
		p->ask = (struct shard_ask){ .shard = shard_ref(q->shards[i]),
					     .ids = t->ids + (size_t)i * most,
					     .on_entry = on_entry,
					     .on_end = on_ask_end };
	}
	return t;
}

static bool has_unsettled(const struct queue *q, enum entry_state state)
{
	for (unsigned i = 0; i < q->shard_count; i++)
		if (shard_tail_next_unsettled(q->shards[i], state, NULL))
			return true;
	return false;
}

static void add_unsettled(struct overflow_tail *t, unsigned part)
{
	struct overflow_part *p = &t->parts[part];
	const struct entry *e = NULL;

	p->first_unsettled = t->row_count;
	while ((e = shard_tail_next_unsettled(p->ask.shard, t->state, e)) != NULL) {
		double score = t->state == ENTRY_READY ? e->rank : (double)e->at_unix_ms;

		add_row(t, (struct place){ score, e->id }, part);
	}
	p->end_unsettled = t->row_count;
}

static void begin_round(struct queue *q, enum entry_state state)
{
	uint64_t over = queue_limit_over(q);
	unsigned most = over < ROUND_MAX ? (unsigned)over : ROUND_MAX;
	struct overflow_tail *t = create_tail(q, most);

	q->has_tail = true;
	t->state = state;
	for (unsigned i = 0; i < t->part_count; i++)
		add_unsettled(t, i);
	waiter_init(&t->waiter, on_all_read);
	for (unsigned i = 0; i < t->part_count; i++) {
		waiter_add(&t->waiter);
		shard_tail_read(t->parts[i].ask.shard, state, most, on_rows,
				&t->parts[i]);
	}
	waiter_done(&t->waiter, TIDE_OK, NULL);
}

/* Begin a round, unless one is under way. Its end activates the queue. */
static void begin_tail(struct queue *q, enum entry_state state)
{
	int64_t now_ms = q->vhost->broker->mono_ms;

	if (q->has_tail || now_ms < q->tail_due_ms)
		return;
	if (!has_unsettled(q, state) && trim(q, state, true))
		queue_wake_by(q, now_ms + REST_MS);
	else
		begin_round(q, state);
}

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

/* Redis alone has the first ones. */
static void bring(struct queue *q, enum entry_state state)
{
	bool is_trimmed = trim(q, state, false);

	for (unsigned i = 0; i < q->shard_count && !is_trimmed; i++)
		shard_front(q->shards[i], state);
	queue_wake_by(q, q->vhost->broker->mono_ms + READ_MS);
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
			begin_tail(q, state);
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
