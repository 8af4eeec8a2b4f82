/* store_private.h: what store.c and the files store_*.c share. */
#ifndef TIDE_STORE_STORE_PRIVATE_H
#define TIDE_STORE_STORE_PRIVATE_H

#include "base/buf.h"
#include "base/container.h"
#include "batch.h"
#include "layout.h"
#include "redis_child.h"
#include "redis_conn.h"
#include "redis_url.h"
#include "store.h"

struct store {
	uv_loop_t *loop;
	struct store_config config; /* its texts are not kept */
	struct store_hooks hooks;
	struct redis_url url;
	char address[256];
	enum store_state state;
	struct redis_child *child; /* embedded, else NULL */
	struct redis_conn *conn;   /* NULL with --store none */
	uv_timer_t none_timer;     /* --store none: what makes it asynchronous */
	struct batch *free_batches;
	unsigned free_batch_count;
	uint64_t transactions;
	bool is_closing;
	bool is_hurried;
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

struct store_shard {
	size_t prefix_len;
	char prefix[]; /* see layout_shard_prefix */
};

static inline struct slice shard_prefix(const struct store_shard *shard)
{
	return (struct slice){ shard->prefix, shard->prefix_len };
}

/* A request of one piece, whose bytes it owns: the first member of each
 * request's structure, except the batch's. */
struct store_call {
	struct redis_request request;
	struct store *store;
	struct buf bytes;
	uv_buf_t part;
};

/* `size` is that of the whole structure, which is zeroed. */
void *store_call_create(struct store *s, size_t size);
/* The command's bytes are in the call. */
void store_call_send(struct store_call *call, unsigned replies, redis_reply_fn on_reply);
void store_call_destroy(struct store_call *call);

/* TIDE_OK, or the error that the reply is (NULL: TIDE_ESHUTDOWN) and its text. */
int store_reply_status(const redisReply *reply, const char **text);

/* The text of a reply; empty when it is no string. */
static inline struct slice store_reply_slice(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return SLICE("");
	return (struct slice){ reply->str, reply->len };
}

/* How many elements one request reads at most: 1 to 4096. */
unsigned store_clamp_count(unsigned count);
/* The last index of a range, for ZRANGE. A negative start must not run through -1
 * into the front of the set. */
int64_t store_last_index(int64_t start, unsigned count);

/* A request that is done or not: on_done, which may be NULL, has the first error
 * of its replies. */
struct store_done_call {
	struct store_call call;
	store_done_fn on_done;
	void *ctx;
	int status;
	char *text;
};

struct store_done_call *store_done_call_create(struct store *s, store_done_fn on_done,
					       void *ctx);
void store_done_call_send(struct store_done_call *d, unsigned replies);

#endif
