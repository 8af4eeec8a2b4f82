#include "buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "decimal.h"
#include "mem.h"

/* The first allocation: a short request or reply fits. */
#define CAP_MIN 64

void buf_deinit(struct buf *b)
{
	mem_free(b->data);
	*b = (struct buf){ 0 };
}

static void move_to_front(struct buf *b)
{
	size_t len = buf_len(b);

	if (len > 0)
		memmove(b->data, b->data + b->start, len);
	b->start = 0;
	b->end = len;
}

/* Doubles, so that appending is linear in what is appended. */
static bool grow_to(struct buf *b, size_t need)
{
	size_t cap = b->cap > SIZE_MAX / 2 ? need : b->cap * 2;

	if (cap < need)
		cap = need;
	if (cap < CAP_MIN)
		cap = CAP_MIN;
	if (b->start > 0)
		move_to_front(b);
	char *data = mem_try_realloc(b->data, cap);
	if (!data)
		return false;
	b->data = data;
	b->cap = cap;
	return true;
}

int buf_try_reserve(struct buf *b, size_t len)
{
	size_t used = buf_len(b);

	if (b->data && len <= b->cap - b->end)
		return TIDE_OK;
	if (len > SIZE_MAX - used)
		return -ENOMEM;
	/* Moving is worth it when what moves is no more than what is gained. */
	if (b->data && used + len <= b->cap && used <= b->start) {
		move_to_front(b);
		return TIDE_OK;
	}
	return grow_to(b, used + len) ? TIDE_OK : -ENOMEM;
}

char *buf_make_room(struct buf *b, size_t len)
{
	if (buf_try_reserve(b, len) != TIDE_OK)
		mem_fail(buf_len(b) + len);
	return b->data + b->end;
}

void buf_grow(struct buf *b, size_t len)
{
	assert(len <= b->cap - b->end);
	b->end += len;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
	if (len == 0)
		return;
	memcpy(buf_reserve(b, len), data, len);
	b->end += len;
}

void buf_append_slice(struct buf *b, struct slice s)
{
	buf_append(b, s.data, s.len);
}

void buf_append_text(struct buf *b, const char *text)
{
	buf_append(b, text, strlen(text));
}

void buf_append_char(struct buf *b, char c)
{
	*buf_reserve(b, 1) = c;
	b->end++;
}

void buf_append_uint(struct buf *b, uint64_t n)
{
	char *to = buf_reserve(b, DECIMAL_MAX);

	b->end += (size_t)(decimal_put(to, n) - to);
}

void buf_append_count(struct buf *b, uint64_t n, const char *noun)
{
	buf_append_uint(b, n);
	buf_append_char(b, ' ');
	buf_append_text(b, noun);
	if (n != 1)
		buf_append_char(b, 's');
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list ap;
	char *at = buf_reserve(b, CAP_MIN);
	size_t room = b->cap - b->end;

	va_start(ap, format);
	int len = vsnprintf(at, room, format, ap);
	va_end(ap);
	assert(len >= 0);
	if ((size_t)len >= room) {
		at = buf_reserve(b, (size_t)len + 1);
		va_start(ap, format);
		vsnprintf(at, (size_t)len + 1, format, ap);
		va_end(ap);
	}
	b->end += (size_t)len;
}

void buf_consume(struct buf *b, size_t len)
{
	assert(len <= buf_len(b));
	b->start += len;
	if (b->start == b->end)
		buf_clear(b);
}

void buf_clear(struct buf *b)
{
	b->start = 0;
	b->end = 0;
}

void buf_shrink(struct buf *b)
{
	if (buf_len(b) == 0)
		buf_deinit(b);
}

const char *buf_cstr(struct buf *b)
{
	*buf_reserve(b, 1) = '\0';
	return b->data + b->start;
}
