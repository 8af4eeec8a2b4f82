/* schedule.h: the scripts of schedule/, for the broker, which has the clock.
 *
 * The engine says which schedules there are and when they are due; the broker
 * calls their run. What a run publishes is handed to the broker one by one, and
 * stored by it when the run has ended well. */
#ifndef TIDE_RULES_ENGINE_SCHEDULE_H
#define TIDE_RULES_ENGINE_SCHEDULE_H

#include "engine.h"
#include "schedule_spec.h"

#define SCHEDULE_PAYLOAD_MAX ((size_t)1024 * 1024)

/* Good until the next reload. */
struct schedule_info {
	const char *name;
	const char *file;
	const struct schedule_spec *spec;
};
typedef void (*schedule_fn)(void *ctx, const struct schedule_info *info);
/* All of them, inactive ones too, by name. */
void schedule_each(const struct engine *e, schedule_fn fn, void *ctx);

struct schedule_message {
	struct slice exchange; /* empty: the default one */
	struct slice key;
	struct slice payload;
	struct msg_header headers[MSG_HEADERS_MAX];
	unsigned header_count;
	int64_t delay_ms;
	uint8_t priority;
};

struct schedule_queue {
	uint64_t ready, delayed, unacked, buried;
	unsigned consumers;
};

/* What a script sees as `broker`. */
struct schedule_broker {
	void *ctx;
	/* A message whose texts are good for the call; an error is raised in the script.
	 */
	int (*publish)(void *ctx, const struct schedule_message *m, struct error *err);
	/* False when there is no such queue. */
	bool (*queue)(void *ctx, struct slice name, struct schedule_queue *out);
};

struct schedule_tick {
	int64_t ms;
	uint64_t missed; /* earlier ticks that this one stands for */
};

/* TIDE_ENOTFOUND when there is no such script, TIDE_ERULE when it fails. */
TIDE_MUST_USE int schedule_run(struct engine *e, struct slice name,
			       const struct schedule_tick *tick,
			       const struct schedule_broker *broker, struct error *err);

#endif
