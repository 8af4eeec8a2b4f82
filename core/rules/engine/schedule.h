/* schedule.h: the scripts of schedule/, for the broker, which has the clock.
 *
 * The engine lists the schedules and says when they are due. The broker calls their run.
 * A run hands its messages to the broker one by one. The broker stores them when the run
 * has succeeded. */
#pragma once

#include "engine.h"
#include "rule.h"

#define SCHEDULE_PAYLOAD_MAX ((size_t)1024 * 1024)

/* All schedules by name, inactive ones too. They are good until the next reload. */
typedef void (*schedule_fn)(void *ctx, const struct rule *rule);
void schedule_each(const struct engine *e, schedule_fn fn, void *ctx);

/* The script's `broker`. */
struct schedule_broker {
	void *ctx;
	/* The message is good for the call. It is published at 0, so that it is due after
	 * its delay. The script gets the error. */
	int (*publish)(void *ctx, const struct msg *m, struct error *err);
	struct slice vhost; /* of the run */
};

struct schedule_tick {
	int64_t ms;
	uint64_t missed; /* how many earlier ticks this tick replaces */
};

/* TIDE_ENOTFOUND: there is no such script. TIDE_ERULE: it fails. */
TIDE_MUST_USE int schedule_run(struct engine *e, struct slice name,
			       const struct schedule_tick *tick,
			       const struct schedule_broker *broker, struct error *err);
