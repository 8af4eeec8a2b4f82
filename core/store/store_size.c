/* store_size.c: how much a shard keeps, as its batches have written it. */
#include <stdlib.h>

#include "store_private.h"

struct size_call {
	struct store_call call;
	store_size_fn on_size;
};

static struct store_size read_size(const redisReply *value)
{
	struct store_size size = { UINT64_MAX, 0 };
	char *end;

	if (value->type != REDIS_REPLY_STRING)
		return size;
	size.messages = strtoull(value->str, &end, 10);
	size.bytes = strtoull(end, NULL, 10);
	return size;
}

static void on_size_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct size_call *c = container_of(call, struct size_call, call);
	struct store_size sizes[2];
	unsigned count = 0;

	for (size_t i = 0; reply && i < reply->elements && i < 2; i++)
		sizes[count++] = read_size(reply->element[i]);
	c->on_size(call->ctx, call->err.code, store_call_text(call), sizes, count);
}

void store_size_read(struct store *s, struct store_shard *shard, store_size_fn on_size,
		     void *ctx)
{
	struct size_call *c = store_call_create(s, shard, sizeof(*c), on_size_reply, ctx);

	c->on_size = on_size;
	store_call_add(&c->call, "HMGET %s%s before after",
		       STORE_KEY(shard, LAYOUT_SIZE));
	store_call_send(&c->call, REDIS_REPLY_ARRAY);
}
