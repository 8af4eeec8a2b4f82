/* session_trace.h: what a TRACE may show. */
#pragma once

#include "session.h"

/* It stands for every exchange. */
static inline bool session_trace_is_all(struct slice exchange)
{
	return slice_is(exchange, "*");
}

/* The session's user may see what the trace shows. */
TIDE_MUST_USE int session_trace_check(struct session *s, const struct trace_spec *spec,
				      struct error *err);
