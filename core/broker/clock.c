#include "clock.h"

#include "host/log.h"
#include "host/machine.h"
#include "broker.h"
#include "pause.h"

/* Below this it was slewed, and times need not be so exact. */
#define STEP_MS 1000

static void step(struct broker *b, int64_t step_ms)
{
	struct vhost *v, *next_vhost;
	struct queue *q, *next;

	log_warn("the clock was set %s by %lld s: leases do not care, delays and "
		 "expiries do not",
		 step_ms < 0 ? "back" : "forward",
		 (long long)(step_ms < 0 ? -step_ms : step_ms) / 1000);
	lease_step_clock(b, step_ms);
	HASH_ITER (hh, b->vhosts, v, next_vhost)
		HASH_ITER (hh, v->queues, q, next) {
			for (unsigned i = 0; i < q->shard_count; i++)
				shard_step_clock(q->shards[i], step_ms);
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
