#include "out.h"

#include "base/mem.h"

#define POOL_KEEP 256 /* free chunks kept: 4 MiB */

void out_pool_init(struct pool *pool)
{
	pool_init(pool, sizeof(struct out_chunk), POOL_KEEP);
}

void out_init(struct out *o, struct pool *pool)
{
	*o = (struct out){ .pool = pool };
}

static void drop_first(struct out *o)
{
	struct out_chunk *c = o->first;

	o->first = c->next;
	if (!o->first)
		o->last = NULL;
	if (c->msg) {
		msg_unref(c->msg);
		mem_free(c);
	} else {
		pool_give(o->pool, c);
	}
}

void out_deinit(struct out *o)
{
	while (o->first)
		drop_first(o);
	o->bytes = 0;
}

static void append_chunk(struct out *o, struct out_chunk *c)
{
	c->next = NULL;
	if (o->last)
		o->last->next = c;
	else
		o->first = c;
	o->last = c;
}

char *out_reserve(struct out *o, size_t len)
{
	struct out_chunk *c = o->last;

	if (!c || c->msg || OUT_CHUNK_BYTES - c->end < len) {
		c = pool_take(o->pool);
		c->msg = NULL;
		c->data = c->bytes;
		c->start = c->end = 0;
		append_chunk(o, c);
	}
	return c->bytes + c->end;
}

void out_grow(struct out *o, size_t len)
{
	o->last->end += len;
	o->bytes += len;
}

void out_append(struct out *o, const void *data, size_t len)
{
	const char *from = data;

	while (len > 0) {
		struct out_chunk *c = o->last;
		size_t room = c && !c->msg ? OUT_CHUNK_BYTES - c->end : 0;
		size_t n;

		if (room == 0) {
			out_reserve(o, 1);
			room = OUT_CHUNK_BYTES;
		}
		n = len < room ? len : room;
		memcpy(o->last->bytes + o->last->end, from, n);
		out_grow(o, n);
		from += n;
		len -= n;
	}
}

void out_append_slice(struct out *o, struct slice s)
{
	out_append(o, s.data, s.len);
}

void out_append_part(struct out *o, struct msg *m, size_t at, size_t len)
{
	struct out_chunk *c;

	/* A view is nobody's to keep. */
	if (len < OUT_REFER_BYTES || m->refs == 0) {
		out_append(o, m->payload + at, len);
		return;
	}
	c = mem_alloc(offsetof(struct out_chunk, bytes));
	c->msg = msg_ref(m);
	c->data = m->payload + at;
	c->start = 0;
	c->end = len;
	append_chunk(o, c);
	o->bytes += len;
}

void out_append_payload(struct out *o, struct msg *m)
{
	out_append_part(o, m, 0, m->payload_len);
}

unsigned out_iovecs(const struct out *o, struct iovec *vec, unsigned max)
{
	unsigned n = 0;

	for (const struct out_chunk *c = o->first; c && n < max; c = c->next) {
		if (c->start == c->end)
			continue;
		vec[n].iov_base = (char *)c->data + c->start;
		vec[n++].iov_len = c->end - c->start;
	}
	return n;
}

void out_consume(struct out *o, size_t len)
{
	o->bytes -= len;
	while (o->first) {
		struct out_chunk *c = o->first;
		size_t has = c->end - c->start;

		if (len < has) {
			c->start += len;
			return;
		}
		len -= has;
		drop_first(o);
	}
}
