/* buf.h: a growable byte buffer, filled at its end and consumed at its front.
 *
 * data[start..end) is the content; a zeroed buf is empty. Without memory growth aborts,
 * except buf_try_reserve, for sizes that a peer chooses. Pointers are good until the next
 * call that may grow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "slice.h"

struct buf {
	char *data;
	size_t start;
	size_t end;
	size_t cap;
};

void buf_deinit(struct buf *b);

static inline size_t buf_len(const struct buf *b)
{
	return b->end - b->start;
}

static inline struct slice buf_slice(const struct buf *b)
{
	return (struct slice){ b->data + b->start, b->end - b->start };
}

TIDE_MUST_USE int buf_try_reserve(struct buf *b, size_t len);
/* For buf_reserve, when there is no room yet. */
char *buf_make_room(struct buf *b, size_t len);

/* Room for `len` more bytes at the returned place; add them with buf_grow. */
static inline char *buf_reserve(struct buf *b, size_t len)
{
	return b->data && len <= b->cap - b->end ? b->data + b->end
						 : buf_make_room(b, len);
}

void buf_grow(struct buf *b, size_t len);

void buf_append(struct buf *b, const void *data, size_t len);
void buf_append_slice(struct buf *b, struct slice s);
void buf_append_text(struct buf *b, const char *text);
void buf_append_char(struct buf *b, char c);
void buf_append_uint(struct buf *b, uint64_t n);
/* "1 byte", "2 bytes": a noun of which there are many by an 's'. */
void buf_append_count(struct buf *b, uint64_t n, const char *noun);
void buf_printf(struct buf *b, const char *format, ...) TIDE_PRINTF(2, 3);

/* Drop `len` bytes from the front. */
void buf_consume(struct buf *b, size_t len);
void buf_clear(struct buf *b);
/* Give the memory back when nothing is in the buffer. */
void buf_shrink(struct buf *b);
/* The content with a zero behind it, which does not count. */
const char *buf_cstr(struct buf *b);
