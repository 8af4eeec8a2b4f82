/* store_lost.c: put messages that are in no set of their shard back among the ready
 * ones. */
#include "resp.h"
#include "store_private.h"

/* KEYS: msg, the sets, ready first. ARGV: where the scan goes on, how many at a time.
 * Returns where it goes on next ("0": it is over) and how many were put back. A scan
 * brings the bodies too: few at a time. The rank is their eighth element. */
static const struct slice script_return =
	SLICE("local scan = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])\n"
	      "local count = 0\n"
	      "for i = 1, #scan[2], 2 do\n"
	      "  local id, has = scan[2][i], false\n"
	      "  for k = 2, #KEYS do\n"
	      "    has = has or redis.call('ZSCORE', KEYS[k], id)\n"
	      "  end\n"
	      "  if not has then\n"
	      "    local ok, body = pcall(cmsgpack.unpack, scan[2][i + 1])\n"
	      "    local rank = ok and type(body) == 'table' and tonumber(body[8])\n"
	      "    redis.call('ZADD', KEYS[2], string.format('%.17g', rank or 0), id)\n"
	      "    count = count + 1\n"
	      "  end\n"
	      "end\n"
	      "return { scan[1], count }\n");

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
	struct buf *out = store_call_add_words(&c->call, 6 + STORE_SET_COUNT);
	struct slice prefix = shard_prefix(shard);
	char keys[DECIMAL_MAX];

	c->on_returned = before->on_returned;
	c->count = before->count;
	resp_text(out, "EVAL");
	resp_bulk(out, script_return);
	resp_bulk(out,
		  (struct slice){ keys, (size_t)(decimal_put(keys, 1 + STORE_SET_COUNT) -
						 keys) });
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
