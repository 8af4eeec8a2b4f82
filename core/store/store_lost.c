/* store_lost.c: put messages that are in no set of their shard back among the ready
 * ones. */
#include "store_private.h"

#define SCAN_COUNT "64"

struct lost_call {
	struct store_call call;
	store_purged_fn on_returned;
	uint64_t count;
};

static void scan(struct store *s, struct store_shard *shard, struct slice cursor,
		 const struct lost_call *before);

static void on_scan_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct lost_call *c = container_of(call, struct lost_call, call);
	struct slice cursor = SLICE("0");

	if (reply && reply->elements == 2) {
		cursor = store_reply_slice(reply->element[0]);
		c->count += (uint64_t)reply->element[1]->integer;
	}
	if (!slice_is(cursor, "0") && cursor.len)
		scan(call->store, call->shard, cursor, c);
	else
		c->on_returned(call->ctx, call->err.code, store_call_text(call),
			       c->count);
}

static void scan(struct store *s, struct store_shard *shard, struct slice cursor,
		 const struct lost_call *before)
{
	struct lost_call *c =
		store_call_create(s, shard, sizeof(*c), on_scan_reply, before->call.ctx);
	struct buf *out = store_call_add_script(&c->call, script_return_lost,
						1 + STORE_SET_COUNT, 2);
	struct slice prefix = shard_prefix(shard);

	c->on_returned = before->on_returned;
	c->count = before->count;
	layout_resp_key(out, prefix, LAYOUT_MSG);
	for (int set = 0; set < STORE_SET_COUNT; set++)
		layout_resp_key(out, prefix, layout_set_key((enum store_set)set));
	resp_bulk(out, cursor);
	resp_text(out, SCAN_COUNT);
	store_call_send(&c->call, REDIS_REPLY_ARRAY);
}

void store_lost_return(struct store *s, struct store_shard *shard,
		       store_purged_fn on_returned, void *ctx)
{
	const struct lost_call first = { .call = { .ctx = ctx },
					 .on_returned = on_returned };

	scan(s, shard, SLICE("0"), &first);
}
