/* http_events.h: server-sent events: an answer that goes on by the clock.
 *
 * The first event comes at once. A peer that reads slowly gets fewer of them. */
#pragma once

#include "http_request.h"

#define HTTP_EVENTS_MIN_MS 100
#define HTTP_EVENTS_MAX_MS 60000

struct http_events {
	int64_t every_ms;
	const char *name; /* of the events: "stats" */
	/* Write what an event says, on one line, in 5 ms at most. An error ends the
	 * answer, and TIDE_AGAIN passes this event over. */
	int (*write)(void *ctx, struct buf *out);
	/* The answer has ended, or the peer has; once. NULL: no matter. */
	void (*end)(void *ctx);
	void *ctx;
};

void http_events_start(struct http_request *q, const struct http_events *events);
