/* slice.h: a borrowed run of bytes; it owns nothing and ends in no zero. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
	const char *data;
	size_t len;
};

/* A slice of a string literal. */
#define SLICE(literal) ((struct slice){ (literal), sizeof(literal) - 1 })

/* For printf: printf("%" SLICE_FMT, SLICE_ARG(s)). */
#define SLICE_FMT ".*s"
#define SLICE_ARG(s) (int)(s).len, (s).data

/* The same for at most `max` bytes of it. */
#define SLICE_HEAD(s, max) (int)((s).len < (max) ? (s).len : (max)), (s).data

static inline struct slice slice_from(const char *text)
{
	return (struct slice){ text, text ? strlen(text) : 0 };
}

static inline bool slice_is_equal(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Below, at or above 0, in the order of bytes. A text comes before what it begins. */
static inline int slice_compare(struct slice a, struct slice b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = len > 0 ? memcmp(a.data, b.data, len) : 0;

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool slice_is(struct slice s, const char *text)
{
	return slice_is_equal(s, slice_from(text));
}

static inline bool slice_has_prefix(struct slice s, const char *prefix)
{
	size_t len = strlen(prefix);

	return s.len >= len && memcmp(s.data, prefix, len) == 0;
}

static inline bool slice_has_suffix(struct slice s, const char *suffix)
{
	size_t len = strlen(suffix);
	return s.len >= len && memcmp(s.data + s.len - len, suffix, len) == 0;
}

static inline struct slice slice_skip(struct slice s, size_t n)
{
	return (struct slice){ s.data + n, s.len - n };
}

/* The index of the first `c`; the length when there is none. */
static inline size_t slice_find(struct slice s, char c)
{
	const char *at = s.len ? (const char *)memchr(s.data, c, s.len) : NULL;

	return at ? (size_t)(at - s.data) : s.len;
}

/* Take what stands before the first `c`, or all of it, and drop the `c`. */
static inline struct slice slice_cut(struct slice *rest, char c)
{
	struct slice head = { rest->data, slice_find(*rest, c) };

	*rest = slice_skip(*rest, head.len < rest->len ? head.len + 1 : head.len);
	return head;
}

/* Decimal digits alone, no sign, at most `max`; false otherwise. */
bool slice_to_uint(struct slice s, uint64_t max, uint64_t *out);
/* Decimal digits, perhaps behind a minus, within these limits; false otherwise. */
bool slice_to_int(struct slice s, int64_t min, int64_t max, int64_t *out);
/* A percentage above 0, up to 100 ("10%", "0.5%", or the number alone), as a fraction;
 * false otherwise. */
bool slice_to_share(struct slice s, double *out);

/* Is it one of the words of "this that other"? NULL has none. */
bool slice_is_listed(struct slice word, const char *list);
/* Is it one of "this, that or other"? Gives its index. */
bool slice_is_choice(struct slice word, const char *choices, unsigned *index);

struct number_limits {
	uint64_t min, max;
};

/* 1–255 bytes of valid UTF-8 without white space, control characters or DEL:
 * what every name, key and pattern of the protocol must be. */
#define NAME_LEN_MAX 255
bool slice_is_name(struct slice s);
bool slice_is_utf8(struct slice s);
