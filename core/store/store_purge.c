/* store_purge.c: remove messages from a set of a shard.
 *
 * In two steps, ids first. In one step, a request that is sent again after a
 * reconnect would remove as many again. */
#include "resp.h"
#include "store_private.h"

/* KEYS: the set, msg, tries, expiry. ARGV: ids. Removes those that are still members of
 * the set, with all that belongs to them; returns how many. A member that left the set
 * since its id was read is in use again, and its body must stay. */
static const struct slice script_remove =
	SLICE("local gone, count = {}, 0\n"
	      "for i = 1, #ARGV do\n"
	      "  if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then\n"
	      "    count = count + 1\n"
	      "    gone[count] = ARGV[i]\n"
	      "  end\n"
	      "end\n"
	      "for from = 1, count, 1000 do\n"
	      "  local last = math.min(from + 999, count)\n"
	      "  redis.call('HDEL', KEYS[2], unpack(gone, from, last))\n"
	      "  redis.call('HDEL', KEYS[3], unpack(gone, from, last))\n"
	      "  redis.call('ZREM', KEYS[4], unpack(gone, from, last))\n"
	      "end\n"
	      "return count\n");

struct purge_call {
	struct store_call call;
	store_purged_fn on_purged;
	enum store_set set;
};

static void remove_ids(const struct purge_call *p, const redisReply *ids)
{
	struct store_call *call = store_count_call_create(p->call.store, p->call.shard,
							  p->on_purged, p->call.ctx);
	struct buf *out = store_call_add_words(call, 7 + ids->elements);
	struct slice prefix = shard_prefix(call->shard);

	resp_text(out, "EVAL");
	resp_bulk(out, script_remove);
	resp_text(out, "4");
	layout_resp_key(out, prefix, layout_set_key(p->set));
	layout_resp_key(out, prefix, LAYOUT_MSG);
	layout_resp_key(out, prefix, LAYOUT_TRIES);
	layout_resp_key(out, prefix, LAYOUT_EXPIRY);
	for (size_t i = 0; i < ids->elements; i++)
		resp_bulk(out, store_reply_slice(ids->element[i]));
	store_call_send(call, REDIS_REPLY_INTEGER);
}

static void on_ids_reply(struct store_call *call, const redisReply *ids, bool is_last)
{
	const struct purge_call *p = container_of(call, struct purge_call, call);

	if (ids && ids->elements > 0)
		remove_ids(p, ids);
	else
		p->on_purged(call->ctx, call->err.code, store_call_text(call), 0);
}

void store_purge(struct store *s, struct store_shard *shard, enum store_set set,
		 int64_t start, unsigned count, store_purged_fn on_purged, void *ctx)
{
	struct purge_call *p = store_call_create(s, shard, sizeof(*p), on_ids_reply, ctx);

	p->on_purged = on_purged;
	p->set = set;
	store_call_add(&p->call, "ZRANGE %s%s %lld %lld",
		       STORE_KEY(shard, layout_set_key(set)), (long long)start,
		       store_last_index(start, count));
	store_call_send(&p->call, REDIS_REPLY_ARRAY);
}
