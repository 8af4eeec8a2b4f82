/* trace_event.h: an event of TRACE: its text is begun, filled and told. */
#pragma once

#include "base/json.h"

struct trace;
struct traced;
struct tracer;

struct trace_event {
	const struct tracer *tracer;
	const struct traced *followed;
	struct buf text;
	struct json
		json; /* its members go here; the address of an event does not change */
};

/* Begin an event about a message. */
void trace_event_begin(struct trace_event *v, const struct tracer *t, const char *what,
		       const struct traced *f);
/* The same for the message with this id. False: nobody follows it. */
bool trace_event_begin_by_id(struct trace_event *v, const struct tracer *t,
			     const char *what, uint64_t id);
/* Tell it, and free the text. */
void trace_event_end(struct trace_event *v);
/* To one, whether its client reads or not. */
void trace_event_send(struct trace *trace, const char *text);
