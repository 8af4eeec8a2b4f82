#include "overflow_tail.h"

#include <stdlib.h>

#include "base/container.h"
#include "base/mem.h"
#include "queue.h"
#include "shard/shard.h"
#include "wake.h"

#define ROUND_MAX 1024 /* messages: some 100 KiB of ids */
#define REST_MS 20     /* until what is in the way has changed its place */
#define RETRY_MS 500   /* after a read that failed */

struct tail_row {
	struct place place;
	unsigned part;
};

/* Of one shard. */
struct tail_part {
	struct shard_ask ask;
	struct overflow_tail *tail;
	size_t first_unsettled, end_unsettled; /* rows that are memory's */
};

struct overflow_tail {
	struct broker *broker;
	uint64_t serial; /* of the queue */
	const struct overflow_tail_ops *ops;
	enum entry_state state;
	struct waiter waiter; /* of the reads, then of the asks */
	unsigned given_up;
	unsigned part_count;
	struct tail_part *parts;
	unsigned most; /* rows of a part, and of what is to go */
	uint64_t *ids; /* of all parts, `most` of each */
	struct tail_row *rows;
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
	wake_by(q, q->tail_due_ms);
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
	struct overflow_tail *t = container_of(ask, struct tail_part, ask)->tail;
	struct queue *q = queue_of(t);

	if (!q || state != t->state || t->broker->is_draining || !is_too_much(q, e))
		return false;
	t->given_up++;
	t->ops->give_up(q, e);
	return true;
}

static void on_ask_end(struct shard_ask *ask, int status, const char *text)
{
	struct overflow_tail *t = container_of(ask, struct tail_part, ask)->tail;

	waiter_done(&t->waiter, status, text);
}

static void on_all_asked(struct waiter *w)
{
	struct overflow_tail *t = container_of(w, struct overflow_tail, waiter);

	end_round(t, w->status < 0 ? RETRY_MS : t->given_up ? 0 : REST_MS);
}

static int compare_rows(const void *a, const void *b)
{
	struct place x = ((const struct tail_row *)a)->place,
		     y = ((const struct tail_row *)b)->place;

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
	t->rows[t->row_count++] = (struct tail_row){ place, part };
}

/* Redis has it by another place than memory, which is right. */
static bool is_unsettled(const struct tail_part *p, uint64_t id)
{
	for (size_t i = p->first_unsettled; i < p->end_unsettled; i++)
		if (p->tail->rows[i].place.id == id)
			return true;
	return false;
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	struct tail_part *p = ctx;
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
		struct tail_part *p = &t->parts[i];

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
	struct tail_part *p = &t->parts[part];
	const struct entry *e = NULL;

	p->first_unsettled = t->row_count;
	while ((e = shard_tail_next_unsettled(p->ask.shard, t->state, e)) != NULL) {
		double score = t->state == ENTRY_READY ? e->rank : (double)e->at_unix_ms;

		add_row(t, (struct place){ score, e->id }, part);
	}
	p->end_unsettled = t->row_count;
}

static void begin_round(struct queue *q, enum entry_state state,
			const struct overflow_tail_ops *ops)
{
	uint64_t over = queue_limit_over(q);
	unsigned most = over < ROUND_MAX ? (unsigned)over : ROUND_MAX;
	struct overflow_tail *t = create_tail(q, most);

	q->has_tail = true;
	t->ops = ops;
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

void overflow_tail_begin(struct queue *q, enum entry_state state,
			 const struct overflow_tail_ops *ops)
{
	int64_t now_ms = q->vhost->broker->mono_ms;

	if (q->has_tail || now_ms < q->tail_due_ms)
		return;
	if (!has_unsettled(q, state) && ops->trim(q, state))
		wake_by(q, now_ms + REST_MS);
	else
		begin_round(q, state, ops);
}
