#include "clock.h"

#include "base/mem.h"
#include "host/log.h"
#include "host/machine.h"
#include "broker.h"
#include "pause.h"

/* Below this it was slewed, and deadlines need not be so exact. */
#define STEP_MS 1000

/* Taken out first: each finds a new place in the order of deadlines. */
static void move_held(struct shard *sh, int64_t step_ms)
{
	size_t count = 0;
	struct entry **entries = mem_alloc((sh->held.count + 1) * sizeof(struct entry *));

	for (struct entry *e = window_first(&sh->held); e; e = window_next(&sh->held, e))
		entries[count++] = e;
	for (size_t i = 0; i < count; i++) {
		entries[i]->held_unix_ms += step_ms;
		shard_touch(entries[i], entries[i]->at_unix_ms + step_ms);
	}
	mem_free(entries);
}

static void step_shard(struct shard *sh, int64_t step_ms)
{
	struct entry *e;

	TAILQ_FOREACH (e, &sh->young, link) {
		e->held_unix_ms += step_ms;
		e->at_unix_ms += step_ms;
	}
	move_held(sh, step_ms);
	/* Whatever it wanted to look at later, at a time that now means another. */
	shard_wake_by(sh, sh->env->now_ms);
}

static void step(struct broker *b, int64_t step_ms)
{
	struct vhost *v, *next_vhost;
	struct queue *q, *next;

	log_warn("the clock was set %s by %lld s: ack deadlines move with it, delays and "
		 "expiries do not",
		 step_ms < 0 ? "back" : "forward",
		 (long long)(step_ms < 0 ? -step_ms : step_ms) / 1000);
	HASH_ITER (hh, b->vhosts, v, next_vhost)
		HASH_ITER (hh, v->queues, q, next) {
			for (unsigned i = 0; i < q->shard_count; i++)
				step_shard(q->shards[i], step_ms);
			pause_tick(q);
		}
}

static void begin_second(struct broker *b)
{
	b->second = b->mono_ms / 1000;
	rate_begin(&b->in, b->counters.published, b->second);
	rate_begin(&b->out, b->counters.delivered, b->second);
}

void clock_update(struct broker *b)
{
	int64_t ahead_ms, step_ms;

	b->now_ms = b->env.now_ms = b->partitions.now_ms =
		machine_clock_ms(CLOCK_REALTIME);
	b->mono_ms = machine_clock_ms(CLOCK_MONOTONIC);
	if (b->mono_ms / 1000 != b->second)
		begin_second(b);
	ahead_ms = b->now_ms - b->mono_ms;
	step_ms = ahead_ms - b->clock_ahead_ms;
	b->clock_ahead_ms = ahead_ms;
	if (b->is_started && (step_ms > STEP_MS || step_ms < -STEP_MS))
		step(b, step_ms);
}
