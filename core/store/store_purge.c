/* store_purge.c: remove messages from a set of a shard.
 *
 * In two steps, ids first. In one step, a request that is sent again after a
 * reconnect would remove as many again. */
#include "base/id.h"
#include "base/mem.h"
#include "store_private.h"

struct purge_call {
	struct store_call call;
	store_purge_fn on_purged;
	enum store_set set;
	bool wants_ids;
};

static bool is_removed_reply(const redisReply *reply)
{
	return reply && reply->elements == 2 &&
	       reply->element[0]->type == REDIS_REPLY_INTEGER &&
	       reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static void on_removed_reply(struct store_call *call, const redisReply *reply,
			     bool is_last)
{
	const struct purge_call *p = container_of(call, struct purge_call, call);
	const redisReply *absent = NULL;
	uint64_t *ids = NULL;
	size_t count = 0;

	if (is_removed_reply(reply)) {
		absent = reply->element[1];
		ids = mem_alloc((absent->elements + 1) * sizeof(*ids));
		for (size_t i = 0; i < absent->elements; i++)
			if (id_parse(store_reply_slice(absent->element[i]),
				     &ids[count]) == TIDE_OK)
				count++;
	} else {
		store_call_fail(call, TIDE_ESTORE, "an unexpected reply from Redis");
	}
	p->on_purged(call->ctx, call->err.code, store_call_text(call),
		     absent ? (uint64_t)reply->element[0]->integer : 0, ids, count);
	mem_free(ids);
}

static void remove_ids(const struct purge_call *p, const redisReply *ids)
{
	struct purge_call *next =
		store_call_create(p->call.store, p->call.shard, sizeof(*next),
				  on_removed_reply, p->call.ctx);
	struct buf *out =
		store_call_add_script(&next->call, script_purge, 4, 1 + ids->elements);
	struct slice prefix = shard_prefix(p->call.shard);

	next->call.request.is_write = true;
	next->on_purged = p->on_purged;
	layout_resp_key(out, prefix, layout_set_key(p->set));
	layout_resp_key(out, prefix, LAYOUT_MSG);
	layout_resp_key(out, prefix, LAYOUT_TRIES);
	layout_resp_key(out, prefix, LAYOUT_EXPIRY);
	resp_text(out, p->wants_ids ? "1" : "0");
	for (size_t i = 0; i < ids->elements; i++)
		resp_bulk(out, store_reply_slice(ids->element[i]));
	store_call_send(&next->call, REDIS_REPLY_ARRAY);
}

static void on_ids_reply(struct store_call *call, const redisReply *ids, bool is_last)
{
	const struct purge_call *p = container_of(call, struct purge_call, call);

	if (ids && ids->elements > 0)
		remove_ids(p, ids);
	else
		p->on_purged(call->ctx, call->err.code, store_call_text(call), 0, NULL,
			     0);
}

void store_purge(struct store *s, struct store_shard *shard,
		 const struct store_purge *purge, store_purge_fn on_purged, void *ctx)
{
	struct purge_call *p = store_call_create(s, shard, sizeof(*p), on_ids_reply, ctx);

	p->on_purged = on_purged;
	p->set = purge->set;
	p->wants_ids = purge->wants_ids;
	store_call_add(&p->call, "ZRANGE %s%s %lld %lld",
		       STORE_KEY(shard, layout_set_key(purge->set)),
		       (long long)purge->start,
		       store_last_index(purge->start, purge->count));
	store_call_send(&p->call, REDIS_REPLY_ARRAY);
}
