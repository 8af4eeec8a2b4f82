#include "turn.h"

#include <sched.h>
#include <stdio.h>

#include "base/mem.h"
#include "host/log.h"
#include "clock.h"
#include "shard/dedupe.h"
#include "exchange.h"
#include "queue.h"
#include "schedule/scheduler.h"
#include "session/session.h"
#include "session/settle.h"
#include "vhost.h"

/* Below these shares of a limit, publishers who were held back go on. */
#define RELIEF(limit) ((limit) / 4 * 3)

/* ---- time and turns ---------------------------------------------------------------- */

void broker_begin(struct broker *b)
{
	clock_update(b);
	pace_begin(&b->pace);
}

void broker_activate(struct broker *b, struct queue *q)
{
	if (q->is_active)
		return;
	q->is_active = true;
	TAILQ_INSERT_TAIL(&b->active, q, active_link);
}

static void tick_shards(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->timers)) != NULL && n->key <= b->now_ms) {
		struct shard *sh =
			(struct shard *)((char *)n - offsetof(struct shard, timer));
		int64_t key = n->key;

		shard_tick(sh);
		/* Cut short by its bound: go on in the next turn. */
		n = heap_min(&b->timers);
		if ((n && n->key <= key) || pace_is_spent(&b->pace, false))
			break;
	}
}

static void free_waiter(struct waiter *w)
{
	mem_free(w);
}

static void auto_delete(struct queue *q)
{
	struct waiter *w = mem_zalloc(sizeof(*w));

	log_debug("auto-delete queue '%s' has no consumer any more", q->name);
	waiter_init(w, free_waiter);
	queue_erase(q, w);
	queue_destroy(q);
	waiter_done(w, TIDE_OK, NULL);
}

/* One pass over the queues that may have something to deal; those that still
 * have are in the list again afterwards. */
static void deal(struct broker *b)
{
	struct queue *last = TAILQ_LAST(&b->active, queue_list);
	struct queue *q;
	bool is_last;

	while ((q = TAILQ_FIRST(&b->active)) != NULL) {
		is_last = q == last;
		TAILQ_REMOVE(&b->active, q, active_link);
		q->is_active = false;
		if (queue_is_abandoned(q))
			auto_delete(q);
		else if (queue_deal(q))
			broker_activate(b, q);
		if (is_last)
			break;
	}
}

static void answer_gets(struct broker *b)
{
	struct heap_node *n;

	while ((n = heap_min(&b->waits)) != NULL && n->key <= b->mono_ms)
		queue_answer_get(
			(struct consumer *)((char *)n - offsetof(struct consumer, wait)));
}

static void close_shards(struct broker *b)
{
	struct shard *sh;

	if (TAILQ_EMPTY(&b->env.closing))
		return;
	pace_begin(&b->pace);
	while ((sh = TAILQ_FIRST(&b->env.closing)) != NULL) {
		shard_close_some(sh);
		if (pace_is_over(&b->pace))
			return;
	}
}

static void on_timer(uv_timer_t *handle)
{
	struct broker *b = handle->data;

	/* The turn comes next. Within this callback it could set the timer anew, and
	 * libuv would call it again and again without ever looking at a socket. */
	b->timer_due_ms = 0;
}

static void on_idle(uv_idle_t *handle)
{
	/* It keeps the loop from waiting; the turn does the work. */
}

/* The earlier of two times, where 0 is none. */
static int64_t earlier(int64_t a, int64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static int64_t next_due_ms(const struct broker *b)
{
	int64_t due_ms = journal_retry_unix_ms(b->journal);
	struct heap_node *n = heap_min(&b->timers);

	if (n)
		due_ms = earlier(due_ms, n->key);
	n = heap_min(&b->waits);
	if (n)
		due_ms = earlier(due_ms, b->now_ms + (n->key - b->mono_ms));
	due_ms = earlier(due_ms, dedupe_due_ms(b->dedupe));
	due_ms = earlier(due_ms, scheduler_due_ms(b));
	return earlier(due_ms, shared_sync_due_ms(b));
}

static void arm(struct broker *b)
{
	int64_t due_ms = next_due_ms(b);
	bool is_due = due_ms != 0 && due_ms <= b->now_ms;
	bool is_busy = is_due || !TAILQ_EMPTY(&b->active) || !TAILQ_EMPTY(&b->settling) ||
		       !TAILQ_EMPTY(&b->unbinding) || !TAILQ_EMPTY(&b->env.closing);

	if (is_busy && !uv_is_active((uv_handle_t *)&b->idle))
		uv_idle_start(&b->idle, on_idle);
	else if (!is_busy && uv_is_active((uv_handle_t *)&b->idle))
		uv_idle_stop(&b->idle);
	if (is_due)
		due_ms = 0; /* the next turn comes without a timer */
	if (due_ms == b->timer_due_ms)
		return;
	b->timer_due_ms = due_ms;
	if (due_ms == 0)
		uv_timer_stop(&b->timer);
	else
		uv_timer_start(&b->timer, on_timer, (uint64_t)(due_ms - b->now_ms), 0);
}

/* A consumer that was just sent a message may be waiting for this processor, and
 * would go on waiting while Redis is sent its batch. To let it go first takes some
 * 12 us off the median delivery at 2,000 messages a second on two cores, and puts
 * twice that on the confirm. Under load there is always more than a light batch. */
static void flush(struct journal *j)
{
	if (journal_is_light(j))
		sched_yield();
	journal_flush(j);
}

void broker_turn(struct broker *b)
{
	broker_begin(b);
	settle_turn(b);
	tick_shards(b);
	if (b->is_started)
		dedupe_turn(b->dedupe);
	scheduler_turn(b);
	deal(b);
	answer_gets(b);
	vhost_turn(b);
	binding_turn(b);
	close_shards(b);
	b->hooks.on_turn(b->hooks.ctx);
	if (b->is_closing)
		return; /* it was the last turn */
	if (b->env.store && b->is_started)
		flush(b->journal);
	if (b->is_started)
		shared_sync_turn(b);
	broker_check_pressure(b);
	arm(b);
}

static void on_prepare(uv_prepare_t *handle)
{
	broker_turn(handle->data);
}

static void on_check(uv_check_t *handle)
{
	broker_turn(handle->data);
}

/* ---- pressure -------------------------------------------------------------------- */

static void set_blocked(struct broker *b, bool is_blocked)
{
	struct session *s, *next;

	b->is_blocked = is_blocked;
	if (is_blocked)
		log_warn("publishers are held back: %s", b->blocked_why);
	else
		log_info("publishers go on");
	for (s = TAILQ_FIRST(&b->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->has_published)
			s->ops->on_blocked(s->ctx, is_blocked, b->blocked_why);
	}
}

void broker_check_pressure(struct broker *b)
{
	size_t unstored = journal_stats(b->journal)->unstored_bytes;
	size_t unstored_max = b->config.unstored_max_bytes;
	size_t memory = broker_memory(b);
	size_t memory_max = b->config.memory_max_bytes;

	if (!b->is_blocked && unstored > unstored_max) {
		snprintf(b->blocked_why, sizeof(b->blocked_why),
			 "%zu MiB wait to be written to Redis", unstored >> 20);
		set_blocked(b, true);
	} else if (!b->is_blocked && memory > memory_max) {
		snprintf(b->blocked_why, sizeof(b->blocked_why),
			 "messages fill %zu MiB of memory", memory >> 20);
		set_blocked(b, true);
	} else if (b->is_blocked && unstored <= RELIEF(unstored_max) &&
		   memory <= RELIEF(memory_max)) {
		set_blocked(b, false);
	}
}

void turn_start(struct broker *b)
{
	uv_timer_init(b->loop, &b->timer);
	uv_prepare_init(b->loop, &b->prepare);
	uv_check_init(b->loop, &b->check);
	uv_idle_init(b->loop, &b->idle);
	b->timer.data = b->prepare.data = b->check.data = b->idle.data = b;
	b->handles = 4;
	uv_prepare_start(&b->prepare, on_prepare);
	uv_check_start(&b->check, on_check);
}
