/* schedule_run.c: one tick of a schedule: run, gather, publish. */
#include <stdlib.h>

#include "base/container.h"
#include "base/mem.h"
#include "broker/exchange.h"
#include "broker/publish.h"
#include "broker/queue.h"
#include "scheduler.h"

/* The ids of a message and its copies, as the first run has written them down. */
static const struct schedule_id *ids_of(const struct schedule *s, unsigned message)
{
	for (unsigned i = 0; s->is_repeat && i < s->id_count; i++)
		if (s->ids[i].message == message)
			return &s->ids[i];
	return NULL;
}

/* The id of the run's next message: a repeated run gives those of the first. */
static uint64_t next_id(struct schedule *s)
{
	const struct schedule_id *first = ids_of(s, s->msg_count);

	return first ? first->id : broker_next_id(s->broker);
}

static int gather(void *ctx, const struct msg *m, struct error *err)
{
	struct schedule *s = ctx;
	struct msg spec = *m, *msg;

	if (m->exchange.len && !exchange_find(s->home, m->exchange))
		return vhost_refuse(s->home, "exchange", m->exchange, err);
	if (s->msg_count == SCHEDULE_MESSAGES_MAX)
		return error_set(err, TIDE_ELIMIT, "a run publishes at most %d messages",
				 SCHEDULE_MESSAGES_MAX);
	spec.id = next_id(s);
	if (!spec.id)
		return id_lease_check(s->broker, err);
	spec.ts_unix_ms = s->broker->now_ms;
	if (spec.due_unix_ms)
		spec.due_unix_ms += spec.ts_unix_ms;
	msg = msg_create(&spec);
	if (!msg)
		return error_set(err, TIDE_EBUSY, "out of memory for %zu bytes",
				 m->payload_len);
	if (!s->msgs)
		s->msgs = mem_alloc(SCHEDULE_MESSAGES_MAX * sizeof(struct msg *));
	s->msgs[s->msg_count++] = msg;
	return TIDE_OK;
}

static void on_stored(struct waiter *w)
{
	struct schedule *s = container_of(w, struct schedule, waiter);

	if (w->status == TIDE_ESHUTDOWN || s->broker->is_closing)
		return; /* the next process finds the tick begun */
	if (w->status < 0)
		scheduler_postpone(s, w->text ? w->text : error_text(w->status));
	else
		scheduler_finish(s, s->failure.code < 0 ? s->failure.text : NULL);
}

static int compare_finds(const void *left, const void *right)
{
	const struct schedule_find *a = left, *b = right;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return ((uintptr_t)a->queue > (uintptr_t)b->queue) -
	       ((uintptr_t)a->queue < (uintptr_t)b->queue);
}

static bool was_found(const void *ctx, const struct msg *m, const struct queue *q)
{
	const struct schedule *s = ctx;
	const struct schedule_find wanted = { m->id, q };

	return s->find_count && bsearch(&wanted, s->finds, s->find_count, sizeof(wanted),
					compare_finds) != NULL;
}

/* A message of the run on its way. */
struct passing {
	struct decide_spec spec;
	struct decision decision;
	int status;
};

static void note_failure(struct schedule *s, struct passing *p, int status,
			 const struct error *err)
{
	p->status = status;
	if (status < 0 && s->failure.code == TIDE_OK)
		s->failure = *err;
}

static void pass_filters(struct schedule *s, unsigned n, struct passing *p)
{
	struct msg *m = s->msgs[n];
	struct error err;

	p->spec = (struct decide_spec){ .vhost = s->home, .msg = m };
	p->decision = (struct decision){ .copy_count = 0 };
	if (m->exchange.len) {
		p->spec.exchange = exchange_find(s->home, m->exchange);
		if (!p->spec.exchange) {
			error_set(&err, TIDE_ENOTFOUND, "an exchange no longer exists");
			note_failure(s, p, TIDE_ENOTFOUND, &err);
			return;
		}
	}
	note_failure(s, p, publish_filter(&p->decision, &p->spec, &err), &err);
}

/* Of a message that fails the copies may have none. */
static void note_ids(struct schedule *s, unsigned n, const struct passing *p)
{
	const struct decision *d = &p->decision;

	scheduler_add_id(s, s->msgs[n]->id, n);
	for (unsigned i = 0; p->status == TIDE_OK && i < d->copy_count; i++)
		scheduler_add_id(s, d->copies[i].msg->id, n);
}

/* The copies are those that the first run has made, if the filters are the same. */
static void give_ids(const struct schedule *s, unsigned n, const struct decision *d)
{
	const struct schedule_id *id = ids_of(s, n), *end = s->ids + s->id_count;

	for (unsigned i = 0; id && i < d->copy_count; i++) {
		if (++id == end || id->message != n)
			return;
		d->copies[i].msg->id = id->id;
	}
}

static void publish_one(struct schedule *s, struct passing *p)
{
	const struct publish_known known = { was_found, s };
	struct error err;

	if (p->status == TIDE_OK)
		note_failure(s, p,
			     publish_filtered(&p->decision, &p->spec, &known, &s->waiter,
					      &err),
			     &err);
	decide_deinit(&p->decision);
}

/* The filters come first, since the mark has the ids of what they copy. That of a
 * first run leaves before its messages, on the same connection. */
static void publish_all(struct schedule *s)
{
	struct passing *all = mem_alloc(s->msg_count * sizeof(*all));

	waiter_init(&s->waiter, on_stored);
	for (unsigned i = 0; i < s->msg_count; i++) {
		pass_filters(s, i, &all[i]);
		if (s->is_repeat)
			give_ids(s, i, &all[i].decision);
		else
			note_ids(s, i, &all[i]);
	}
	if (!s->is_repeat) {
		s->begun_ms = s->tick.ms;
		s->begun_missed = s->tick.missed;
		scheduler_write_mark(s, &s->waiter);
	}
	for (unsigned i = 0; i < s->msg_count; i++)
		publish_one(s, &all[i]);
	mem_free(all);
	waiter_done(&s->waiter, TIDE_OK, NULL);
}

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
		s->finds[s->find_count++] =
			(struct schedule_find){ s->ids[i].id, a->shard->owner };
	}
	shard_unref(a->shard);
	mem_free(a);
	waiter_done(&s->waiter, status, NULL);
}

static void on_asked(struct waiter *w)
{
	struct schedule *s = container_of(w, struct schedule, waiter);

	if (w->status < 0 || s->broker->is_closing)
		return;
	if (s->find_count)
		qsort(s->finds, s->find_count, sizeof(*s->finds), compare_finds);
	publish_all(s);
}

static void ask_shard(struct schedule *s, struct shard *sh)
{
	struct asking *a;
	uint64_t *ids;

	if (!sh->keys)
		return;
	ids = mem_alloc(s->id_count * sizeof(*ids));
	for (unsigned i = 0; i < s->id_count; i++)
		ids[i] = s->ids[i].id;
	a = mem_alloc(sizeof(*a));
	a->schedule = s;
	a->shard = shard_ref(sh);
	waiter_add(&s->waiter);
	store_read_has(s->broker->store, sh->keys, ids, s->id_count, on_has, a);
	mem_free(ids);
}

/* A sharding script may choose otherwise this time: every shard is asked. Topics are not:
 * what a run has appended before a crash is appended again. */
static void look_for_messages(struct schedule *s)
{
	struct queue *q, *next;

	waiter_init(&s->waiter, on_asked);
	if (s->broker->env.store)
		HASH_ITER (hh, s->home->queues, q, next)
			for (unsigned i = 0; i < q->shard_count; i++)
				ask_shard(s, q->shards[i]);
	waiter_done(&s->waiter, TIDE_OK, NULL);
}

int schedule_run_home(const struct schedule *s, struct vhost **out, struct error *err)
{
	*out = vhost_find(s->broker, slice_from(s->spec.vhost));
	if (*out)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "there is no vhost '%s'; DECLARE vhost %s makes it",
			 s->spec.vhost, s->spec.vhost);
}

void schedule_run_tick(struct schedule *s, int64_t tick_ms, uint64_t missed)
{
	const struct schedule_broker broker = { s, gather, slice_from(s->spec.vhost) };
	struct error err;

	s->is_repeat = s->begun_ms != 0;
	s->is_busy = true;
	s->scheduler->busy++;
	s->failure.code = TIDE_OK;
	s->tick = (struct schedule_tick){ tick_ms, missed };
	s->runs++;
	if (schedule_run_home(s, &s->home, &s->failure) < 0) {
		scheduler_finish(s, s->failure.text);
		return;
	}
	vhost_ref(s->home);
	if (id_lease_check(s->broker, &err) < 0) {
		scheduler_postpone(s, err.text);
		return;
	}
	if (schedule_run(s->broker->engine, slice_from(s->name), &s->tick, &broker,
			 &err) != TIDE_OK) {
		s->failure = err;
		scheduler_finish(s, s->failure.text);
	} else if (s->msg_count == 0) {
		scheduler_finish(s, NULL);
	} else if (s->is_repeat) {
		look_for_messages(s);
	} else {
		publish_all(s);
	}
}
