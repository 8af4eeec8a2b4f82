/* store_purge.c: remove messages from a set of a shard.
 *
 * In two steps, ids first. In one step, a request that is sent again after a
 * reconnect would remove as many again. */
#include <string.h>

#include "redis_script.h"
#include "resp.h"
#include "store_private.h"

struct purge_call {
	struct store_call call;
	store_purged_fn on_purged;
	void *ctx;
	enum store_set set;
	size_t prefix_len;
	char prefix[];
};

static void end_purge(struct purge_call *p, int status, const char *text,
		      uint64_t removed)
{
	p->on_purged(p->ctx, status, text, removed);
	store_call_destroy(&p->call);
}

static void on_removed_reply(struct redis_request *request, const redisReply *reply)
{
	const char *text;
	int rc = store_reply_status(reply, &text);
	bool has_count = rc == TIDE_OK && reply->type == REDIS_REPLY_INTEGER;

	end_purge(container_of(request, struct purge_call, call.request), rc, text,
		  has_count ? (uint64_t)reply->integer : 0);
}

static void on_ids_reply(struct redis_request *request, const redisReply *reply)
{
	struct purge_call *p = container_of(request, struct purge_call, call.request);
	struct slice prefix = { p->prefix, p->prefix_len };
	struct buf *out = &p->call.bytes;
	const char *text;
	int rc = store_reply_status(reply, &text);
	size_t count =
		rc == TIDE_OK && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;

	if (count == 0) {
		end_purge(p, rc, text, 0);
		return;
	}
	buf_clear(out);
	resp_array(out, 7 + count);
	resp_text(out, "EVAL");
	resp_bulk(out, redis_script_remove);
	resp_text(out, "4");
	layout_resp_key(out, prefix, layout_set_key(p->set));
	layout_resp_key(out, prefix, LAYOUT_MSG);
	layout_resp_key(out, prefix, LAYOUT_TRIES);
	layout_resp_key(out, prefix, LAYOUT_EXPIRY);
	for (size_t i = 0; i < count; i++)
		resp_bulk(out, store_reply_slice(reply->element[i]));
	store_call_send(&p->call, 1, on_removed_reply);
}

void store_purge(struct store *s, const struct store_shard *shard, enum store_set set,
		 int64_t start, unsigned count, store_purged_fn on_purged, void *ctx)
{
	struct slice prefix = shard_prefix(shard);
	struct purge_call *p = store_call_create(s, sizeof(*p) + prefix.len);
	struct buf *out = &p->call.bytes;

	p->on_purged = on_purged;
	p->ctx = ctx;
	p->set = set;
	p->prefix_len = prefix.len;
	memcpy(p->prefix, prefix.data, prefix.len);
	resp_array(out, 4);
	resp_text(out, "ZRANGE");
	layout_resp_key(out, prefix, layout_set_key(set));
	resp_int(out, start);
	resp_int(out, store_last_index(start, store_clamp_count(count)));
	store_call_send(&p->call, 1, on_ids_reply);
}
