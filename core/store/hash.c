/* hash.c: hashes of small things that are not messages: what scripts keep and
 * what schedules have done; and whether messages are there. */
#include <string.h>

#include "../base/mem.h"
#include "resp.h"
#include "store_private.h"

static const char *const hash_keys[STORE_HASH_COUNT] = {
	[STORE_HASH_SHARED] = "tide:rules:shared",
	[STORE_HASH_SCHEDULE] = "tide:rules:schedule",
};

/* ---- writing ------------------------------------------------------------------- */

struct hash_write {
	struct store_call call;
	store_done_fn on_done;
	void *ctx;
	int status;
	char text[256];
};

static void note(struct hash_write *w, int status, const char *text)
{
	if (status == TIDE_OK || w->status < 0)
		return;
	w->status = status;
	strncpy(w->text, text, sizeof(w->text) - 1);
}

static void on_write_reply(struct redis_request *request, const redisReply *reply)
{
	struct hash_write *w = (struct hash_write *)request;
	const char *text;
	int status = store_reply_status(reply, &text);
	if (reply && request->answered == 1)
		w->status = TIDE_OK; /* the first, perhaps for the second time */
	note(w, status, text);
	if (reply && request->answered < request->replies)
		return;
	if (w->on_done)
		w->on_done(w->ctx, w->status, w->status < 0 ? w->text : NULL);
	store_call_destroy(&w->call);
}

static size_t count_removed(const struct store_change *changes, size_t count)
{
	size_t removed = 0;
	for (size_t i = 0; i < count; i++)
		removed += changes[i].value.data == NULL;
	return removed;
}

static void write_head(struct buf *out, const char *verb, enum store_hash hash,
		       size_t words)
{
	resp_array(out, 2 + words);
	resp_text(out, verb);
	resp_text(out, hash_keys[hash]);
}

void store_hash_write(struct store *s, enum store_hash hash,
		      const struct store_change *changes, size_t count,
		      store_done_fn on_done, void *ctx)
{
	struct hash_write *w = store_call_create(s, sizeof(*w));
	struct buf *out = &w->call.bytes;
	size_t removed = count_removed(changes, count);
	w->on_done = on_done;
	w->ctx = ctx;
	if (removed)
		write_head(out, "HDEL", hash, removed);
	for (size_t i = 0; removed && i < count; i++)
		if (!changes[i].value.data)
			resp_bulk(out, changes[i].name);
	if (removed < count)
		write_head(out, "HSET", hash, 2 * (count - removed));
	for (size_t i = 0; removed < count && i < count; i++) {
		if (!changes[i].value.data)
			continue;
		resp_bulk(out, changes[i].name);
		resp_bulk(out, changes[i].value);
	}
	store_call_send(&w->call, (removed > 0) + (removed < count), on_write_reply);
}

/* ---- loading -------------------------------------------------------------------- */

struct hash_load {
	struct store_call call;
	store_field_fn on_field;
	store_done_fn on_end;
	void *ctx;
};

static struct slice slice_of(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return (struct slice){ "", 0 };
	return (struct slice){ reply->str, reply->len };
}

static void on_load_reply(struct redis_request *request, const redisReply *reply)
{
	struct hash_load *l = (struct hash_load *)request;
	const char *text;
	int status = store_reply_status(reply, &text);
	if (status == TIDE_OK && reply->type != REDIS_REPLY_ARRAY) {
		status = TIDE_ESTORE;
		text = "an unexpected reply to a load";
	}
	for (size_t i = 0; status == TIDE_OK && i + 2 <= reply->elements; i += 2)
		l->on_field(l->ctx, slice_of(reply->element[i]),
			    slice_of(reply->element[i + 1]));
	l->on_end(l->ctx, status, text);
	store_call_destroy(&l->call);
}

void store_hash_load(struct store *s, enum store_hash hash, store_field_fn on_field,
		     store_done_fn on_end, void *ctx)
{
	struct hash_load *l = store_call_create(s, sizeof(*l));
	l->on_field = on_field;
	l->on_end = on_end;
	l->ctx = ctx;
	write_head(&l->call.bytes, "HGETALL", hash, 0);
	store_call_send(&l->call, 1, on_load_reply);
}

/* ---- are they there? --------------------------------------------------------------- */

struct has_call {
	struct store_call call;
	store_has_fn on_has;
	void *ctx;
	unsigned count;
	bool found[];
};

static void on_has_reply(struct redis_request *request, const redisReply *reply)
{
	struct has_call *h = (struct has_call *)request;
	const char *ignored;
	int status = store_reply_status(reply, &ignored);
	/* An error: the key is no hash, so no message is in it. */
	if (reply)
		h->found[request->answered - 1] =
			status == TIDE_OK && reply->integer == 1;
	if (reply && request->answered < request->replies)
		return;
	h->on_has(h->ctx, reply ? TIDE_OK : TIDE_ESHUTDOWN, h->found, h->count);
	store_call_destroy(&h->call);
}

void store_has(struct store *s, const struct store_shard *shard, const uint64_t *ids,
	       unsigned count, store_has_fn on_has, void *ctx)
{
	struct has_call *h = store_call_create(s, sizeof(*h) + count * sizeof(bool));
	h->on_has = on_has;
	h->ctx = ctx;
	h->count = count;
	for (unsigned i = 0; i < count; i++) {
		resp_array(&h->call.bytes, 3);
		resp_text(&h->call.bytes, "HEXISTS");
		layout_resp_key(&h->call.bytes, shard_prefix(shard), LAYOUT_MSG);
		resp_id(&h->call.bytes, ids[i]);
	}
	store_call_send(&h->call, count, on_has_reply);
}
