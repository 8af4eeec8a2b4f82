/* document.c: small hashes: what the broker keeps of itself. */
#include "../base/mem.h"
#include "resp.h"
#include "store_private.h"

static void write_key(struct buf *out, const char *name)
{
	struct slice key = slice_from(name);
	resp_bulk_begin(out, sizeof("tide:") - 1 + key.len);
	buf_append_text(out, "tide:");
	buf_append_slice(out, key);
	resp_bulk_end(out);
}

/* ---- writing ---------------------------------------------------------------------- */

struct done_call {
	struct store_call call;
	store_done_fn on_done;
	void *ctx;
};

static void on_done_reply(struct redis_request *request, const redisReply *reply)
{
	struct done_call *d = (struct done_call *)request;
	const char *text;
	int status = store_reply_status(reply, &text);
	if (d->on_done)
		d->on_done(d->ctx, status, text);
	store_call_destroy(&d->call);
}

static struct done_call *done_call_create(struct store *s, store_done_fn on_done,
					  void *ctx)
{
	struct done_call *d = store_call_create(s, sizeof(*d));
	d->on_done = on_done;
	d->ctx = ctx;
	return d;
}

void store_document_write(struct store *s, const char *name,
			  const struct store_field *fields, size_t count,
			  store_done_fn on_done, void *ctx)
{
	struct done_call *d = done_call_create(s, on_done, ctx);
	struct buf *out = &d->call.bytes;
	resp_array(out, 2 + 2 * count);
	resp_text(out, "HSET");
	write_key(out, name);
	for (size_t i = 0; i < count; i++) {
		resp_bulk(out, fields[i].name);
		resp_bulk(out, fields[i].value);
	}
	store_call_send(&d->call, 1, on_done_reply);
}

void store_document_remove(struct store *s, const char *name, struct slice field,
			   store_done_fn on_done, void *ctx)
{
	struct done_call *d = done_call_create(s, on_done, ctx);
	struct buf *out = &d->call.bytes;
	resp_array(out, field.len ? 3 : 2);
	resp_text(out, field.len ? "HDEL" : "UNLINK");
	write_key(out, name);
	if (field.len)
		resp_bulk(out, field);
	store_call_send(&d->call, 1, on_done_reply);
}

/* ---- reading ---------------------------------------------------------------------- */

struct read_call {
	struct store_call call;
	store_fields_fn on_fields;
	void *ctx;
};

static struct slice text_of(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return (struct slice){ "", 0 };
	return (struct slice){ reply->str, reply->len };
}

static void tell_fields(const struct read_call *c, const redisReply *reply)
{
	size_t count = reply->elements / 2;
	struct store_field *fields = mem_alloc((count + 1) * sizeof(*fields));
	for (size_t i = 0; i < count; i++)
		fields[i] = (struct store_field){ .name = text_of(reply->element[2 * i]),
						  .value = text_of(
							  reply->element[2 * i + 1]) };
	c->on_fields(c->ctx, TIDE_OK, NULL, fields, count);
	mem_free(fields);
}

static void on_read_reply(struct redis_request *request, const redisReply *reply)
{
	struct read_call *c = (struct read_call *)request;
	const char *text;
	int status = store_reply_status(reply, &text);
	if (status == TIDE_OK && reply->type != REDIS_REPLY_ARRAY) {
		status = TIDE_ESTORE;
		text = "an unexpected reply to the reading of a document";
	}
	if (status == TIDE_OK)
		tell_fields(c, reply);
	else
		c->on_fields(c->ctx, status, text, NULL, 0);
	store_call_destroy(&c->call);
}

void store_document_read(struct store *s, const char *name, store_fields_fn on_fields,
			 void *ctx)
{
	struct read_call *c = store_call_create(s, sizeof(*c));
	c->on_fields = on_fields;
	c->ctx = ctx;
	resp_array(&c->call.bytes, 2);
	resp_text(&c->call.bytes, "HGETALL");
	write_key(&c->call.bytes, name);
	store_call_send(&c->call, 1, on_read_reply);
}
