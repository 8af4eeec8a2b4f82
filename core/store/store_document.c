/* store_document.c: small hashes of what are not messages: what the broker keeps
 * of itself, what scripts keep, what schedules have done. */
#include "base/mem.h"
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

static void write_head(struct buf *out, const char *verb, const char *name, size_t words)
{
	resp_array(out, 2 + words);
	resp_text(out, verb);
	write_key(out, name);
}

static size_t count_removed(const struct store_field *changes, size_t count)
{
	size_t removed = 0;

	for (size_t i = 0; i < count; i++)
		removed += changes[i].value.data == NULL;
	return removed;
}

void store_document_change(struct store *s, const char *name,
			   const struct store_field *changes, size_t count,
			   store_done_fn on_done, void *ctx)
{
	struct store_done_call *d = store_done_call_create(s, on_done, ctx);
	struct buf *out = &d->call.bytes;
	size_t removed = count_removed(changes, count);

	if (removed)
		write_head(out, "HDEL", name, removed);
	for (size_t i = 0; removed && i < count; i++)
		if (!changes[i].value.data)
			resp_bulk(out, changes[i].name);
	if (removed < count)
		write_head(out, "HSET", name, 2 * (count - removed));
	for (size_t i = 0; removed < count && i < count; i++) {
		if (!changes[i].value.data)
			continue;
		resp_bulk(out, changes[i].name);
		resp_bulk(out, changes[i].value);
	}
	store_done_call_send(d, (removed > 0) + (removed < count));
}

void store_document_remove(struct store *s, const char *name, store_done_fn on_done,
			   void *ctx)
{
	struct store_done_call *d = store_done_call_create(s, on_done, ctx);

	write_head(&d->call.bytes, "UNLINK", name, 0);
	store_done_call_send(d, 1);
}

struct document_call {
	struct store_call call;
	store_fields_fn on_fields;
	void *ctx;
};

static void tell_fields(const struct document_call *c, const redisReply *reply)
{
	size_t count = reply->elements / 2;
	struct store_field *fields = mem_alloc((count + 1) * sizeof(*fields));

	for (size_t i = 0; i < count; i++)
		fields[i] = (struct store_field){
			.name = store_reply_slice(reply->element[2 * i]),
			.value = store_reply_slice(reply->element[2 * i + 1])
		};
	c->on_fields(c->ctx, TIDE_OK, NULL, fields, count);
	mem_free(fields);
}

static void on_read_reply(struct redis_request *request, const redisReply *reply)
{
	struct document_call *c =
		container_of(request, struct document_call, call.request);
	const char *text;
	int rc = store_reply_status(reply, &text);

	if (rc == TIDE_OK && reply->type != REDIS_REPLY_ARRAY) {
		rc = TIDE_ESTORE;
		text = "an unexpected reply to the reading of a document";
	}
	if (rc == TIDE_OK)
		tell_fields(c, reply);
	else
		c->on_fields(c->ctx, rc, text, NULL, 0);
	store_call_destroy(&c->call);
}

void store_document_read(struct store *s, const char *name, store_fields_fn on_fields,
			 void *ctx)
{
	struct document_call *c = store_call_create(s, sizeof(*c));

	c->on_fields = on_fields;
	c->ctx = ctx;
	write_head(&c->call.bytes, "HGETALL", name, 0);
	store_call_send(&c->call, 1, on_read_reply);
}
