#include "trace_event.h"

#include <math.h>
#include <stdio.h>

#include "session_private.h"
#include "traced.h"
#include "tracer_private.h"

void trace_event_begin(const struct tracer *t, struct buf *text, struct json *j,
		       const char *what, const struct traced *f)
{
	double ms = (double)(uv_hrtime() - f->began_ns) / 1e6;

	*j = (struct json){ .out = text };
	json_object_begin(j);
	json_member_text(j, "what", what);
	json_member_int(j, "at", t->service->broker->now_ms);
	json_member_hex(j, "id", f->id);
	json_member_number(j, "ms", round(ms * 1000) / 1000);
}

void trace_event_send(struct trace *trace, const char *text)
{
	const struct session *s = trace->channel->session;

	s->ops->on_event(s->ctx, trace->channel->number, "trace", text);
}

static void tell_dropped(struct trace *trace)
{
	char text[96];

	if (trace->dropped == trace->told_dropped)
		return;
	snprintf(text, sizeof(text), "{\"what\":\"dropped\",\"events\":%llu}",
		 (unsigned long long)(trace->dropped - trace->told_dropped));
	trace->told_dropped = trace->dropped;
	trace_event_send(trace, text);
}

void trace_event_tell(const struct tracer *t, unsigned traces, struct buf *text)
{
	for (unsigned i = 0; i < TRACES_MAX; i++) {
		struct trace *trace = t->traces[i];
		const struct session *s;

		if (!trace || !(traces & 1u << i))
			continue;
		s = trace->channel->session;
		if (!s->ops->can_take(s->ctx)) {
			trace->dropped++;
			continue;
		}
		tell_dropped(trace);
		trace_event_send(trace, buf_cstr(text));
	}
}

void trace_event_end(const struct tracer *t, const struct traced *f, struct buf *text,
		     struct json *j)
{
	json_object_end(j);
	trace_event_tell(t, f->traces, text);
	buf_deinit(text);
}
