/* trace_event.h: an event of TRACE: its text is begun, filled and told. */
#pragma once

#include "base/json.h"

struct trace;
struct traced;
struct tracer;

/* Begin the text of an event about a message. */
void trace_event_begin(const struct tracer *t, struct buf *text, struct json *j,
		       const char *what, const struct traced *f);
/* Tell it, and free the text. */
void trace_event_end(const struct tracer *t, const struct traced *f, struct buf *text,
		     struct json *j);
/* To all of the mask, if their clients read. */
void trace_event_tell(const struct tracer *t, unsigned traces, struct buf *text);
/* To one, whether its client reads or not. */
void trace_event_send(struct trace *trace, const char *text);
