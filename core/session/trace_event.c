#include "trace_event.h"

#include <math.h>
#include <stdio.h>

#include "session_private.h"
#include "traced.h"
#include "tracer_private.h"

void trace_event_begin(struct trace_event *v, const struct tracer *t, const char *what,
		       const struct traced *f)
{
	double ms = (double)(uv_hrtime() - f->began_ns) / 1e6;

	*v = (struct trace_event){ .tracer = t, .followed = f };
	v->json.out = &v->text;
	json_object_begin(&v->json);
	json_member_text(&v->json, "what", what);
	json_member_int(&v->json, "at", t->service->broker->now_ms);
	json_member_hex(&v->json, "id", f->id);
	json_member_number(&v->json, "ms", round(ms * 1000) / 1000);
}

bool trace_event_begin_by_id(struct trace_event *v, const struct tracer *t,
			     const char *what, uint64_t id)
{
	const struct traced *f = traced_find(&t->followed, id);

	if (f)
		trace_event_begin(v, t, what, f);
	return f != NULL;
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

/* To all of the mask, if their clients read. */
static void tell(const struct tracer *t, unsigned traces, struct buf *text)
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

void trace_event_end(struct trace_event *v)
{
	json_object_end(&v->json);
	tell(v->tracer, v->followed->traces, &v->text);
	buf_deinit(&v->text);
}
