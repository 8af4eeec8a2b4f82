#include "http_stream.h"

#include <microhttpd.h>

#include "http_answer.h"
#include "http_engine.h"
#include "http_request_private.h"
#include "http_wait.h"

#define PIECE_BYTES 16384

void http_stream_end(struct http_request *q)
{
	void (*end)(void *ctx) = q->source.end;

	q->source.next = NULL;
	q->source.end = NULL;
	if (end)
		end(q->source.ctx);
}

/* What the source says next, in q->piece. */
static ssize_t fill(struct http_request *q, size_t max)
{
	int rc;

	if (http_wait_turn(q))
		return 0;
	buf_clear(&q->piece);
	rc = q->source.next(q->source.ctx, &q->piece, max);
	if (rc == TIDE_EMPTY) {
		http_stream_end(q);
		return buf_len(&q->piece) ? 0 : MHD_CONTENT_READER_END_OF_STREAM;
	}
	if (rc < 0 && rc != TIDE_AGAIN)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (buf_len(&q->piece) == 0)
		http_wait_begin(q);
	return 0;
}

static ssize_t read_piece(void *cls, uint64_t pos, char *out, size_t max)
{
	struct http_request *q = cls;
	size_t len;

	/* The connection has ended. */
	if (!q->conn)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (buf_len(&q->piece) == 0 && !q->source.next)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (buf_len(&q->piece) == 0) {
		ssize_t rc = fill(q, max);

		if (rc < 0)
			return rc;
	}
	len = buf_len(&q->piece) < max ? buf_len(&q->piece) : max;
	if (len > 0)
		memcpy(out, q->piece.data + q->piece.start, len);
	buf_consume(&q->piece, len);
	return (ssize_t)len;
}

void http_stream_start(struct http_request *q, const struct http_source *source)
{
	q->source = *source;
	http_answer_set(q, 200,
			MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES,
							  read_piece, q, NULL));
	http_answer_header(q, "Content-Type", source->content_type);
	http_answer_header(q, "Cache-Control", "no-store");
}

void http_stream_wake(struct http_request *q)
{
	http_wait_end(q);
}
