/* store_tried.c: which members of a set have been tried before. */
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "store_private.h"

#define SCAN_COUNT "1000"

/* What the scans so far have found. */
struct tried {
	enum store_set set;
	store_tried_fn on_ids;
	uint64_t *ids;
	size_t count, cap;
};

struct tried_call {
	struct store_call call;
	struct tried tried;
};

static void scan(struct store *s, struct store_shard *shard, struct slice cursor,
		 const struct tried *tried, void *ctx);

static void gather(struct tried *t, const redisReply *ids)
{
	for (size_t i = 0; i < ids->elements; i++) {
		MEM_GROW(t->ids, t->count, t->cap, 64);
		if (id_parse(store_reply_slice(ids->element[i]), &t->ids[t->count]) ==
		    TIDE_OK)
			t->count++;
	}
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* A scan may name a field more than once. */
static void sort_unique(struct tried *t)
{
	size_t kept = 0;

	if (t->count > 0)
		qsort(t->ids, t->count, sizeof(*t->ids), compare_ids);
	for (size_t i = 0; i < t->count; i++)
		if (kept == 0 || t->ids[kept - 1] != t->ids[i])
			t->ids[kept++] = t->ids[i];
	t->count = kept;
}

static void on_scan_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct tried_call *c = container_of(call, struct tried_call, call);
	struct tried *t = &c->tried;
	struct slice cursor = SLICE("0");

	if (reply && reply->elements == 2 &&
	    reply->element[1]->type == REDIS_REPLY_ARRAY) {
		cursor = store_reply_slice(reply->element[0]);
		gather(t, reply->element[1]);
	}
	if (!slice_is(cursor, "0") && cursor.len) {
		scan(call->store, call->shard, cursor, t, call->ctx);
		return;
	}
	sort_unique(t);
	t->on_ids(call->ctx, call->err.code, store_call_text(call), t->ids, t->count);
	mem_free(t->ids);
}

static void scan(struct store *s, struct store_shard *shard, struct slice cursor,
		 const struct tried *tried, void *ctx)
{
	struct tried_call *c =
		store_call_create(s, shard, sizeof(*c), on_scan_reply, ctx);
	struct buf *out = store_call_add_script(&c->call, script_tried, 2, 2);

	c->tried = *tried;
	layout_resp_key(out, shard_prefix(shard), LAYOUT_TRIES);
	layout_resp_key(out, shard_prefix(shard), layout_set_key(tried->set));
	resp_bulk(out, cursor);
	resp_text(out, SCAN_COUNT);
	store_call_send(&c->call, REDIS_REPLY_ARRAY);
}

void store_tried_read(struct store *s, struct store_shard *shard, enum store_set set,
		      store_tried_fn on_ids, void *ctx)
{
	scan(s, shard, SLICE("0"), &(struct tried){ .set = set, .on_ids = on_ids }, ctx);
}
