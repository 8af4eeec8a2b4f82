/* out.h: the output of a connection: a chain of chunks and payloads.
 *
 * Small things are written into chunks, which connections share a pool of, so
 * that an idle one owns none. A large payload is not copied: the chain holds a
 * reference of its message until it has been sent. No I/O happens here: the
 * network takes the front as iovecs and says how much of it went out. */
#pragma once

#include <stddef.h>
#include <sys/uio.h>

#include "base/msg.h"
#include "base/mem.h"
#include "base/slice.h"

#define OUT_CHUNK_BYTES 16384
/* From this size on, an iovec of its own is cheaper than a copy. */
#define OUT_REFER_BYTES 4096

struct out_chunk {
	struct out_chunk *next;
	struct msg *msg; /* a referenced payload; NULL: the bytes are here */
	const char *data;
	size_t start; /* sent up to here */
	size_t end;
	char bytes[OUT_CHUNK_BYTES];
};

struct out {
	struct pool *pool; /* of chunks */
	struct out_chunk *first, *last;
	size_t bytes; /* not yet sent */
};

void out_pool_init(struct pool *pool);
void out_init(struct out *o, struct pool *pool);
void out_deinit(struct out *o);

/* Room for `len` (at most OUT_CHUNK_BYTES) bytes in one piece; add them with
 * out_grow. */
char *out_reserve(struct out *o, size_t len);
void out_grow(struct out *o, size_t len);
void out_append(struct out *o, const void *data, size_t len);
void out_append_slice(struct out *o, struct slice s);
/* The payload of a message, by copy or by reference; that of a view (its refs are 0) by
 * copy. */
void out_append_payload(struct out *o, struct msg *m);
/* A part of it. */
void out_append_part(struct out *o, struct msg *m, size_t at, size_t len);

/* Fill at most `max` iovecs with the front; gives how many. */
unsigned out_iovecs(const struct out *o, struct iovec *vec, unsigned max);
/* `len` bytes of the front were sent. */
void out_consume(struct out *o, size_t len);

/* Put a text at a place in the room of out_reserve; gives the place behind it. */
static inline char *out_put(char *at, const char *text, size_t len)
{
	memcpy(at, text, len);
	return at + len;
}
#define PUT(at, literal) out_put(at, literal, sizeof(literal) - 1)

/* The bytes in the room up to `at` belong to the output. */
static inline void out_grow_to(struct out *o, const char *at)
{
	out_grow(o, (size_t)(at - (o->last->bytes + o->last->end)));
}
