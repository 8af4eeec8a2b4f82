#include "http_stream.h"

#include "http_answer.h"
#include "http_engine.h"
#include "http_request_private.h"

#define PIECE_BYTES 16384

void http_stream_end(struct http_request *q)
{
	void (*end)(void *ctx) = q->source.end;

	q->source.next = NULL;
	q->source.end = NULL;
	if (end)
		end(q->source.ctx);
}

static void write_chunk(struct out *out, struct slice bytes)
{
	char size[24];

	out_append(out, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", bytes.len));
	out_append_slice(out, bytes);
	out_append(out, "\r\n", 2);
}

static void write_piece(struct http_request *q, struct slice piece)
{
	struct out *out = q->conn->base.out;

	if (q->head.is_old) {
		out_append_slice(out, piece);
		return;
	}
	while (piece.len > 0) {
		size_t len = piece.len < PIECE_BYTES ? piece.len : PIECE_BYTES;

		write_chunk(out, (struct slice){ piece.data, len });
		piece = slice_skip(piece, len);
	}
}

/* An answer that breaks off has no end that a reader could take for one. */
static void break_off(struct http_request *q)
{
	q->conn->is_leaving = true;
	http_stream_end(q);
}

bool http_stream_write(struct http_request *q)
{
	struct buf piece = { 0 };
	int rc = TIDE_EMPTY;

	if (q->source.next)
		rc = q->source.next(q->source.ctx, &piece, PIECE_BYTES);
	if (buf_len(&piece) > 0)
		write_piece(q, buf_slice(&piece));
	q->is_source_idle = rc == TIDE_AGAIN && buf_len(&piece) == 0;
	buf_deinit(&piece);
	if (rc == TIDE_OK || rc == TIDE_AGAIN)
		return true;
	if (rc != TIDE_EMPTY)
		break_off(q);
	else if (!q->head.is_old)
		out_append(q->conn->base.out, "0\r\n\r\n", 5);
	return false;
}

void http_stream_start(struct http_request *q, const struct http_source *source)
{
	http_answer_begin(q, 200);
	q->source = *source;
	q->is_in_pieces = true;
	/* Without chunks its end is that of the connection. */
	q->conn->is_leaving |= q->head.is_old;
	http_answer_header(q, "Content-Type", source->content_type);
	http_answer_header(q, "Cache-Control", "no-store");
}

void http_stream_wake(struct http_request *q)
{
	q->is_source_idle = false;
	http_engine_queue(q);
}
