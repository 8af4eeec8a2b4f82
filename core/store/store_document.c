/* store_document.c: small hashes of what are not messages: what the broker keeps
 * of itself, what scripts keep, what schedules have done. */
#include "base/mem.h"
#include "resp.h"
#include "store_private.h"

/* The caller appends `words` words. */
static struct buf *add_command(struct store_call *call, const char *verb,
			       const char *name, size_t words)
{
	struct buf *out = store_call_add_words(call, 2 + words);

	resp_text(out, verb);
	resp_pair(out, SLICE("tide:"), slice_from(name));
	return out;
}

void store_document_change(struct store *s, const char *name,
			   const struct store_field *changes, size_t count,
			   store_done_fn on_done, void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);
	struct buf *out;
	size_t removed = 0;

	for (size_t i = 0; i < count; i++)
		removed += changes[i].value.data == NULL;
	if (removed > 0)
		out = add_command(call, "HDEL", name, removed);
	for (size_t i = 0; removed > 0 && i < count; i++)
		if (!changes[i].value.data)
			resp_bulk(out, changes[i].name);
	if (removed < count)
		out = add_command(call, "HSET", name, 2 * (count - removed));
	for (size_t i = 0; removed < count && i < count; i++) {
		if (!changes[i].value.data)
			continue;
		resp_bulk(out, changes[i].name);
		resp_bulk(out, changes[i].value);
	}
	store_call_send(call, 0);
}

void store_document_remove(struct store *s, const char *name, store_done_fn on_done,
			   void *ctx)
{
	struct store_call *call = store_done_call_create(s, NULL, on_done, ctx);

	add_command(call, "UNLINK", name, 0);
	store_call_send(call, 0);
}

struct document_call {
	struct store_call call;
	store_fields_fn on_fields;
};

static void on_read_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct document_call *c = container_of(call, struct document_call, call);
	size_t count = reply ? reply->elements / 2 : 0;
	struct store_field *fields = mem_alloc((count + 1) * sizeof(*fields));

	for (size_t i = 0; i < count; i++)
		fields[i] = (struct store_field){
			.name = store_reply_slice(reply->element[2 * i]),
			.value = store_reply_slice(reply->element[2 * i + 1])
		};
	c->on_fields(call->ctx, call->err.code, store_call_text(call), fields, count);
	mem_free(fields);
}

void store_document_read(struct store *s, const char *name, store_fields_fn on_fields,
			 void *ctx)
{
	struct document_call *c =
		store_call_create(s, NULL, sizeof(*c), on_read_reply, ctx);

	c->on_fields = on_fields;
	add_command(&c->call, "HGETALL", name, 0);
	store_call_send(&c->call, REDIS_REPLY_ARRAY);
}
