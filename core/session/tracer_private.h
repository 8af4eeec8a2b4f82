/* tracer_private.h: the traces, as the files know them that tell their events. */
#pragma once

#include "broker/decide.h"
#include "rules/api/line_trace.h"
#include "session.h"
#include "traced.h"

#define TRACES_MAX 8 /* of the broker; a bit each in traced.traces */

struct trace {
	struct tracer *tracer;
	struct channel *channel;
	unsigned number;        /* of its bit */
	struct trace_spec spec; /* its texts are its own */
	uint64_t threshold;     /* of random numbers: what lies below is picked */
	int64_t until_mono_ms;
	unsigned picked;
	uint64_t dropped, told_dropped; /* events */
};

struct tracer {
	struct service *service;
	struct follower follower;
	struct trace *traces[TRACES_MAX];
	unsigned trace_count;
	struct traced_set followed;
	uint64_t random;
	/* The publish that is being decided. */
	unsigned deciding; /* who follows it */
	uint64_t began_ns;
	struct explanation *explanation;
	struct decision_context context;
	/* The retry script that was asked last, and about which message. */
	struct line_trace failing;
	uint64_t failing_id;
};
