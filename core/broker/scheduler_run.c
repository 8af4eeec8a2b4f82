/* scheduler_run.c: one tick of a schedule: run, gather, publish. */
#include "../base/mem.h"
#include "exchange.h"
#include "publish.h"
#include "queue.h"
#include "route.h"
#include "scheduler.h"

/* ---- what the script sees ---------------------------------------------------------- */

static struct vhost *home(const struct schedule *s)
{
	return vhost_find(s->broker, SLICE("/"));
}

/* The id of the run's next message: a repeated run gives those of the first. */
static uint64_t next_id(struct schedule *s)
{
	struct broker *b = s->broker;

	if (s->is_repeat && s->msg_count < s->id_count)
		return s->ids[s->msg_count];
	return id_next(&b->ids, b->now_ms);
}

static int gather(void *ctx, const struct schedule_message *m, struct error *err)
{
	struct schedule *s = ctx;
	int64_t now_ms = s->broker->now_ms;
	struct msg_spec spec = {
		.ts_unix_ms = now_ms,
		.due_unix_ms = m->delay_ms ? now_ms + m->delay_ms : 0,
		.priority = m->priority,
		.header_count = (uint8_t)m->header_count,
		.exchange = m->exchange,
		.key = m->key,
		.headers = m->headers,
		.payload = m->payload.data,
		.payload_len = m->payload.len,
	};
	struct msg *msg;

	if (m->exchange.len && !exchange_find(home(s), m->exchange))
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT "'",
				 SLICE_ARG(m->exchange));
	if (s->msg_count == SCHEDULE_MESSAGES_MAX)
		return error_set(err, TIDE_ELIMIT, "a run publishes %d messages at most",
				 SCHEDULE_MESSAGES_MAX);
	spec.id = next_id(s);
	msg = msg_create(&spec);
	if (!msg)
		return error_set(err, TIDE_EBUSY, "there is no memory for %zu bytes now",
				 m->payload.len);
	if (!s->msgs)
		s->msgs = mem_alloc(SCHEDULE_MESSAGES_MAX * sizeof(struct msg *));
	s->msgs[s->msg_count++] = msg;
	return TIDE_OK;
}

static bool count_queue(void *ctx, struct slice name, struct schedule_queue *out)
{
	const struct schedule *s = ctx;
	const struct queue *q = queue_find(home(s), name);

	if (!q)
		return false;
	*out = (struct schedule_queue){
		.ready = queue_count(q, ENTRY_READY),
		.delayed = queue_count(q, ENTRY_DELAYED),
		.unacked = queue_count(q, ENTRY_UNACKED),
		.buried = queue_count(q, ENTRY_BURIED),
		.consumers = q->consumer_count,
	};
	return true;
}

/* ---- publishing -------------------------------------------------------------------- */

static void on_stored(struct waiter *w)
{
	struct schedule *s =
		(struct schedule *)((char *)w - offsetof(struct schedule, waiter));

	if (w->status == TIDE_ESHUTDOWN || s->broker->is_closing)
		return; /* the next process finds the tick begun */
	if (w->status < 0)
		schedule_postpone(s, w->text ? w->text : error_text(w->status));
	else
		schedule_finish(s, s->failure.code < 0 ? s->failure.text : NULL);
}

static bool was_found(const struct schedule *s, unsigned message, const void *queue)
{
	for (unsigned i = 0; i < s->find_count; i++)
		if (s->finds[i].message == message &&
		    (!queue || s->finds[i].queue == queue))
			return true;
	return false;
}

/* The message is in some of its queues: enter it into the others. */
static int publish_rest(struct schedule *s, struct exchange *x, unsigned n,
			struct error *err)
{
	struct msg *m = s->msgs[n];
	const struct route *route;
	int rc = route_find(home(s), x, m, &route, err);

	for (unsigned i = 0; rc == TIDE_OK && i < route->count; i++) {
		const struct route_target *t = &route->targets[i];
		struct shard *sh;
		unsigned shard;

		if (was_found(s, n, t->queue))
			continue;
		rc = route_pick(t, m, &shard, err);
		if (rc < 0)
			break;
		sh = t->queue->shards[shard];
		shard_publish(sh, m, t->has_rank ? t->rank : queue_rank(t->queue, sh, m),
			      &s->waiter);
	}
	return rc;
}

static void publish_one(struct schedule *s, unsigned n)
{
	struct msg *m = s->msgs[n];
	struct exchange *x = NULL;
	struct error err = { .code = TIDE_OK };
	struct published ignored;
	int rc = TIDE_OK;

	if (m->exchange.len) {
		x = exchange_find(home(s), m->exchange);
		if (!x)
			rc = error_set(&err, TIDE_ENOTFOUND, "an exchange has gone");
	}
	if (rc == TIDE_OK && was_found(s, n, NULL))
		rc = publish_rest(s, x, n, &err);
	else if (rc == TIDE_OK)
		rc = publish_message(home(s), x, m, false, &s->waiter, &ignored, &err);
	if (rc < 0 && s->failure.code == TIDE_OK)
		s->failure = err;
}

/* The mark of a first run leaves before its messages, on the same connection. */
static void publish_all(struct schedule *s)
{
	waiter_init(&s->waiter, on_stored);
	if (!s->is_repeat)
		schedule_write_mark(s, &s->waiter);
	for (unsigned i = 0; i < s->msg_count; i++)
		publish_one(s, i);
	waiter_done(&s->waiter, TIDE_OK, NULL);
}

/* ---- what a repeated run finds
 * --------------------------------------------------------- */

struct asking {
	struct schedule *schedule;
	struct shard *shard;
};

static void on_has(void *ctx, int status, const bool *found, unsigned count)
{
	struct asking *a = ctx;
	struct schedule *s = a->schedule;

	for (unsigned i = 0; status == TIDE_OK && i < count; i++) {
		if (!found[i])
			continue;
		s->finds = mem_realloc(s->finds, (s->find_count + 1) * sizeof(*s->finds));
		s->finds[s->find_count++] = (struct scheduler_find){ i, a->shard->owner };
	}
	shard_unref(a->shard);
	mem_free(a);
	waiter_done(&s->waiter, status, NULL);
}

static void on_asked(struct waiter *w)
{
	struct schedule *s =
		(struct schedule *)((char *)w - offsetof(struct schedule, waiter));

	if (w->status == TIDE_OK && !s->broker->is_closing)
		publish_all(s);
}

static void ask_shard(struct schedule *s, struct shard *sh)
{
	struct asking *a;

	if (!sh->keys)
		return;
	a = mem_alloc(sizeof(*a));
	a->schedule = s;
	a->shard = shard_ref(sh);
	waiter_add(&s->waiter);
	store_has(s->broker->store, sh->keys, s->ids, s->id_count, on_has, a);
}

/* A sharding script may choose otherwise this time: every shard is asked. */
static void look_for_messages(struct schedule *s)
{
	struct queue *q, *next;

	waiter_init(&s->waiter, on_asked);
	if (s->broker->env.store)
		HASH_ITER (hh, home(s)->queues, q, next)
			for (unsigned i = 0; i < q->config.shards; i++)
				ask_shard(s, q->shards[i]);
	waiter_done(&s->waiter, TIDE_OK, NULL);
}

/* ---- the tick ---------------------------------------------------------------------- */

static void note_begun(struct schedule *s)
{
	s->begun_ms = s->tick.ms;
	s->begun_missed = s->tick.missed;
	s->ids = mem_alloc(s->msg_count * sizeof(*s->ids));
	s->id_count = s->msg_count;
	for (unsigned i = 0; i < s->msg_count; i++)
		s->ids[i] = s->msgs[i]->id;
}

void schedule_run_tick(struct schedule *s, int64_t tick_ms, uint64_t missed)
{
	const struct schedule_broker broker = { s, gather, count_queue };
	struct error err;

	s->is_repeat = s->begun_ms != 0;
	s->is_busy = true;
	s->broker->scheduler->busy++;
	s->failure.code = TIDE_OK;
	s->tick = (struct schedule_tick){ tick_ms, missed };
	s->runs++;
	if (engine_schedule_run(s->broker->engine, slice_from(s->name), &s->tick, &broker,
				&err) != TIDE_OK) {
		s->failure = err;
		schedule_finish(s, s->failure.text);
	} else if (s->msg_count == 0) {
		schedule_finish(s, NULL);
	} else if (s->is_repeat) {
		look_for_messages(s);
	} else {
		note_begun(s);
		publish_all(s);
	}
}
