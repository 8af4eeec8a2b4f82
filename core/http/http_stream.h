/* http_stream.h: an answer in pieces, for what is long or never ends.
 *
 * The peer takes pieces as fast as it can. A handler that answers so leaves its reply
 * alone. */
#pragma once

#include "http_request.h"

struct http_source {
	const char *content_type;
	/* Write some `room` bytes, in 5 ms at most. TIDE_OK: more follows. TIDE_EMPTY:
	 * that was all. TIDE_AGAIN: more follows after http_stream_wake. Another error
	 * cuts the answer off. */
	int (*next)(void *ctx, struct buf *out, size_t room);
	/* The answer has left, or the peer has; once. The session may be gone. */
	void (*end)(void *ctx);
	void *ctx;
	bool is_endless; /* it ends when the broker stops */
};

void http_stream_start(struct http_request *q, const struct http_source *source);
/* The source has more. Harmless when it is not waited for. */
void http_stream_wake(struct http_request *q);
/* Write its next piece, if it has one. False: that was the last. */
bool http_stream_write(struct http_request *q);
/* No piece follows, and `end` is called. Harmless when that has been. */
void http_stream_end(struct http_request *q);
