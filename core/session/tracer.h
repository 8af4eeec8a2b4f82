/* tracer.h: TRACE: messages are followed from their publish to their end, and their
 * followers are told what happens: EVT trace, a JSON object each.
 *
 * A trace belongs to a channel and ends with it, or when its time is over. It picks
 * messages as they are published, by exchange and key, up to a number, and tells all that
 * happens to these. Of a client that does not read, events are dropped and counted. */
#pragma once

#include "session.h"

struct trace;
struct tracer;

/* It stands for every exchange. */
static inline bool tracer_is_all(struct slice exchange)
{
	return slice_is(exchange, "*");
}

/* The session's user may see what the trace shows. */
TIDE_MUST_USE int tracer_check(struct session *s, const struct trace_spec *spec,
			       struct error *err);

/* Accepts NULL. Its traces have ended. */
void tracer_destroy(struct tracer *t);

/* The channel has none. The first event may come within the call. TIDE_ELIMIT: the broker
 * has as many as it may have. */
TIDE_MUST_USE int tracer_start(struct channel *ch, const struct trace_spec *spec,
			       struct error *err);
/* Tell why, and forget it. */
void tracer_end_take(struct trace *trace, const char *why);
/* The session's user may perhaps do less now: what it may no longer follow ends. */
void tracer_recheck(struct session *s);

/* The publish is answered. */
void tracer_confirm(struct tracer *t, const struct reply *r, const char *text);

/* End those whose time is over. */
void tracer_turn(struct service *s);
/* When that is next, wall clock; 0: never. */
int64_t tracer_due_ms(const struct service *s);
