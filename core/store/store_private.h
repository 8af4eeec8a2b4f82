/* store_private.h: what store.c and the files store_*.c share. */
#pragma once

#include "base/buf.h"
#include "base/container.h"
#include "batch.h"
#include "layout.h"
#include "redis_child.h"
#include "redis_lanes.h"
#include "sentinel.h"
#include "redis_url.h"
#include "resp.h"
#include "scripts.h"
#include "store.h"

struct transaction_part;
TAILQ_HEAD(transaction_parts, transaction_part);

struct store {
	uv_loop_t *loop;
	struct store_config config; /* its texts are not kept */
	struct store_hooks hooks;
	struct redis_url url;
	struct tls_context *tls; /* of rediss:// */
	unsigned next_host;      /* of the URL, to be tried */
	char address[256];
	struct redis_confirm_level confirm;
	enum store_state state;
	struct redis_child *child; /* embedded, else NULL */
	struct redis_lanes *lanes; /* NULL with --store none */
	struct sentinel *sentinel; /* NULL without one */
	uv_timer_t none_timer;     /* --store none: what makes it asynchronous */
	struct batch *free_batches;
	unsigned free_batch_count;
	uint64_t transactions;
	struct transaction_parts parts; /* of transactions over several slots */
	bool is_closing;
	bool is_hurried;
	uint64_t
		close_by_ms; /* uv_now: the end of the grace of a close; 0: it has none */
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

/* The owner has a reference, and each request under way. */
struct store_shard {
	unsigned refs;
	unsigned slot; /* of its keys in a Redis Cluster */
	size_t prefix_len;
	char prefix[]; /* see layout_shard_prefix; ends with a zero */
};

static inline struct slice shard_prefix(const struct store_shard *shard)
{
	return (struct slice){ shard->prefix, shard->prefix_len };
}

/* For the "%s%s" of a format: a key of a shard. */
#define STORE_KEY(shard, key) (shard)->prefix, layout_key_suffix(key)

/* Commands whose bytes and replies belong together: all requests but batches. What a
 * request has to know besides makes it the first member of a larger structure. It ends
 * itself after the last reply. */
struct store_call;

/* A reply; NULL when it is an error, which the call notes, or when the store is being
 * closed. */
typedef void (*store_reply_fn)(struct store_call *call, const redisReply *reply,
			       bool is_last);

/* Of any type. */
typedef void (*store_tell_fn)(void);

struct store_call {
	struct redis_request request;
	struct store *store;
	struct store_shard *shard; /* NULL: of no shard */
	store_reply_fn on_reply;
	/* The receiver of the end: on_reply knows of which type it is. */
	store_tell_fn tell;
	void *ctx;
	bool is_ahead; /* it does not wait for the transactions of its slot */
	struct buf bytes;
	uv_buf_t part;
	int type;         /* of each reply; 0: any */
	struct error err; /* the first one */
};

/* Whom the call is to tell: CALL_TELLS(call, on_rows). Who is told gets context, code and
 * text (NULL: all is well), then the rest: CALL_TELL(call, store_rows_fn, rows, count).
 */
#define CALL_TELLS(call, fn) ((call)->tell = (store_tell_fn)(fn))
#define CALL_TELLER(call, type) ((type)(call)->tell)
#define CALL_TELL(call, type, ...) \
	CALL_TELLER(call, type)    \
	((call)->ctx, (call)->err.code, store_call_text(call), ##__VA_ARGS__)

/* `size` is that of the whole structure, which is zeroed. `shard` may be NULL. */
void *store_call_create(struct store *s, struct store_shard *shard, size_t size,
			store_reply_fn on_reply, void *ctx);
/* One without more than the call, that tells `tell`. */
struct store_call *store_call_begin(struct store *s, struct store_shard *shard,
				    store_reply_fn on_reply, store_tell_fn tell,
				    void *ctx);
/* Add a command, in the format of redisCommand: %b is a slice's data and len. */
void store_call_add(struct store_call *call, const char *format, ...);
/* Add a command of `verb` and so many words, which the caller appends to the buf. */
struct buf *store_call_add_words(struct store_call *call, const char *verb, size_t words);
/* The same that runs a script: the caller appends so many keys and then words. */
struct buf *store_call_add_script(struct store_call *call, struct slice script,
				  size_t keys, size_t words);
/* Every reply that is no error has the type `type`, or any with 0. */
void store_call_send(struct store_call *call, int type);
/* The same of bytes that lie in several places, which the caller keeps. */
void store_call_send_parts(struct store_call *call, int type, const uv_buf_t *parts,
			   unsigned count);
/* Tell that the call has failed, and free it: it was not sent. */
void store_call_drop(struct store_call *call, const struct error *err);
/* Note what a reply to EXEC says: an error of a command in it is one of the call. */
void store_call_check_exec(struct store_call *call, const redisReply *reply);
void store_call_fail(struct store_call *call, int code, const char *text);
/* The error; NULL: there is none. */
const char *store_call_text(const struct store_call *call);

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
long long store_last_index(int64_t start, unsigned count);

/* A request that is done or not, also one that ends with EXEC; on_done may be NULL. */
struct store_call *store_done_call_create(struct store *s, struct store_shard *shard,
					  store_done_fn on_done, void *ctx);
/* A request whose reply is a number. */
struct store_call *store_count_call_create(struct store *s, struct store_shard *shard,
					   store_purged_fn on_count, void *ctx);
/* The n-th of something that the owners of all cells number. */
uint64_t store_number(const struct store *s, uint64_t n);
/* The bytes of the batch are sent, or copied: it may be used again. */
void store_batch_give_back(struct batch *b);

/* Give a request to its connection, behind the transactions of its slot. */
void store_send(struct store *s, struct redis_request *r);
/* Commands are added to the call of a transaction, then cut: in a Redis Cluster they
 * become those of that slot. `is_before`: they are carried out once, ahead of the
 * transaction. */
struct store_call *store_transaction_call(struct store_transaction *t);
void store_transaction_cut(struct store_transaction *t, unsigned slot, bool is_before);
/* Carry out the transactions that a crash has cut short. */
void store_transactions_finish(struct store *s, store_done_fn on_done, void *ctx);
/* The store is being closed: none waits to be sent again. */
void store_transactions_hurry(struct store *s);
