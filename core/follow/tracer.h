/* tracer.h: TRACE: messages are followed from their publish to their end, and a JSON
 * object tells each step.
 *
 * A trace ends with its owner, or when its time is over. It picks messages as they are
 * published, by exchange and key, up to a number, and tells all that happens to these.
 * Events for an owner who does not read are dropped and counted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

struct broker;
struct vhost;

#define TRACE_MESSAGES_MAX 10000
#define TRACE_FOR_MAX_MS (3600 * 1000)

struct trace_spec {
	struct slice exchange; /* empty: the default exchange; "*": any */
	struct slice key;      /* a pattern, as of a topic exchange */
	double share;          /* of the publishes, above 0, at most 1 */
	int64_t for_ms;
	uint64_t max; /* messages that are followed */
	bool has_payload;
};

/* The reader of a trace. */
struct trace_reader {
	struct vhost *const *vhost; /* publishes there are picked; it may change */
	void (*on_event)(void *ctx, const char *text);
	bool (*can_take)(void *ctx);
	void (*on_end)(void *ctx); /* the trace is gone */
	void *ctx;
};

struct trace;
struct tracer;

/* The name that stands for every exchange. */
static inline bool tracer_is_all(struct slice exchange)
{
	return slice_is(exchange, "*");
}

struct tracer *tracer_create(struct broker *b);
/* Accepts NULL. Its traces have ended. */
void tracer_destroy(struct tracer *t);

/* The first event may come within the call. TIDE_ELIMIT: the broker has as many traces as
 * it may have. */
TIDE_MUST_USE int tracer_start(struct tracer *t, const struct trace_spec *spec,
			       const struct trace_reader *reader, struct trace **out,
			       struct error *err);
const struct trace_spec *tracer_spec(const struct trace *trace);
/* Tell why, then on_end. */
void tracer_end_take(struct trace *trace, const char *why);

/* End the traces whose time is over. Accepts NULL. */
void tracer_turn(struct tracer *t);
/* When that is next, wall clock; 0: never. Accepts NULL. */
int64_t tracer_due_ms(const struct tracer *t);
