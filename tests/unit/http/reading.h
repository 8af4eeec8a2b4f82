/* reading.h: a request that comes in pieces, read as a connection does it. */
#ifndef TIDE_TEST_READING_H
#define TIDE_TEST_READING_H

#include <stdlib.h>

#include "base/buf.h"
#include "http/http_head.h"

/* A request as far as it was read, and what came of it. */
struct reading {
	struct http_scan scan;
	struct http_head head;
	struct http_body body;
	char *text; /* of the head; NULL: its end has not come */
	struct buf content;
	const char *why; /* NULL: it was not refused */
};

static inline size_t reading_head(struct reading *r, struct slice data)
{
	size_t len;

	if (r->scan.at == 0 && slice_has_prefix(data, "\r\n"))
		return 2;
	r->why = http_head_scan(&r->scan, data, HTTP_HEAD_MAX, &len);
	if (r->why || len == 0)
		return 0;
	r->text = strndup(data.data, len);
	r->why = http_head_read(&r->head, r->text);
	http_body_init(&r->body, &r->head);
	return len;
}

static inline size_t reading_body(struct reading *r, struct slice data)
{
	struct slice piece;
	size_t used;

	r->why = http_body_feed(&r->body, (char *)data.data, data.len, &used, &piece);
	buf_append_slice(&r->content, piece);
	return used;
}

static inline bool reading_is_whole(const struct reading *r)
{
	return r->text && !r->why && r->body.state == HTTP_BODY_DONE;
}

/* Gives how much of it was used, up to the end of the request. */
static inline size_t reading_feed(struct reading *r, struct slice data)
{
	size_t at = 0, used = 1;

	while (at < data.len && used > 0 && !r->why && !reading_is_whole(r)) {
		struct slice rest = slice_skip(data, at);

		used = r->text ? reading_body(r, rest) : reading_head(r, rest);
		at += used;
	}
	return at;
}

/* In pieces of so many bytes; gives how much is left over. */
static inline size_t reading_pieces(struct reading *r, struct slice all, size_t size)
{
	struct buf in = { 0 };
	size_t left;

	*r = (struct reading){ 0 };
	for (size_t at = 0; at < all.len && !r->why && !reading_is_whole(r); at += size) {
		size_t n = all.len - at < size ? all.len - at : size;

		buf_append(&in, all.data + at, n);
		buf_consume(&in, reading_feed(r, buf_slice(&in)));
	}
	left = buf_len(&in);
	buf_deinit(&in);
	return left;
}

static inline void reading_forget(struct reading *r)
{
	free(r->text);
	buf_deinit(&r->content);
}

#endif
