/* store.h: where messages and definitions are kept: Redis, or nothing.
 *
 * The store knows keys, ids, scores and messages; it knows no queues and
 * decides nothing. It runs on the loop's thread; every call returns at once,
 * and a completion never runs before the call that asked for it has returned.
 *
 * Requests are answered in the order in which they were made (in a Redis Cluster: those
 * of a slot). They are idempotent, so when the connection is lost they are kept and sent
 * again, in the same order, after the reconnect; a completion reports an error only when
 * Redis itself refused (OOM, READONLY, ...), when Redis lacks what it has confirmed
 * (STORE_STALE), or when the store is being closed (TIDE_ESHUTDOWN). Every completion is
 * called exactly once.
 *
 * The store logs what happens to its connection; who is told by on_state need
 * not log it again, except for STORE_FAILED. The program must ignore SIGPIPE.
 *
 * With `--store none` store_is_durable() is false, and nothing but open and
 * close may be called. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "base/msg.h"
#include "base/slice.h"
#include "base/tally.h"

struct store;

enum store_fsync { STORE_FSYNC_ALWAYS, STORE_FSYNC_EVERYSEC, STORE_FSYNC_NO };

/* One broker at a time may write to a store; redis_holder.h says how. */
enum store_hold {
	STORE_HOLD_NONE,    /* nobody else is there, or nothing is written */
	STORE_HOLD_OR_FAIL, /* a start fails while another broker holds it */
	/* Likewise for who is no broker: it leaves a store of an older layout alone. */
	STORE_HOLD_AS_IS,
	STORE_HOLD_OR_WAIT, /* a start waits until no other does */
};

enum store_state {
	STORE_STARTING, /* not yet connected for the first time */
	STORE_UP,
	STORE_DOWN, /* lost; reconnecting for ever, requests are kept */
	/* Redis lacks what it has confirmed: it was emptied, came back from an older
	 * copy, or is another one. Requests are refused until it has all of it. */
	STORE_STALE,
	/* The first connection failed, what was found is not fit to keep messages, or
	 * another broker has taken the store over; close is all that is left. */
	STORE_FAILED,
};

/* Meaning of an answer to a write: Redis has it, and so many of its replicas have it too
 * (`is_synced`: on their disks). */
struct store_confirm {
	unsigned replicas; /* 0: Redis alone */
	bool is_synced;
};
#define STORE_CONFIRM_REPLICAS_MAX 100
#define STORE_CONFIRM_TEXT_MAX 24
/* From "master", "replicas=N" or "synced=N". */
TIDE_MUST_USE int store_confirm_parse(const char *text, struct store_confirm *out,
				      struct error *err);

struct store_config {
	/* "embedded", "none", "redis://[user:pass@]host[:port][/db]",
	 * "rediss://" with TLS, "redis+unix:[user:pass@]/path[?db=N]",
	 * "redis+sentinel://..." */
	const char *url;
	const char *data_dir;   /* of the embedded Redis; exists */
	enum store_fsync fsync; /* of the embedded Redis; an other one has its own */
	enum store_hold hold;
	unsigned node;  /* of the broker that holds it, for people */
	unsigned cells; /* 1: not split; at most STORE_CELLS_MAX */
	/* Where other brokers reach this one; NULL: nowhere. The text outlives the store,
	 * and may be written until the loop runs. */
	const char *at;
	struct store_confirm confirm; /* above 0 replicas: of another Redis alone */
	int64_t connect_timeout_ms;   /* more than 0 */
	int64_t command_timeout_ms;   /* more than 0 */
	/* For the messages that are read; it outlives them. NULL: malloc. */
	struct msg_pool *msgs;
};

struct store_hooks {
	void *ctx;
	/* The state changed. `why` is one sentence: why it went down or failed, or
	 * what it is connected to. STORE_UP comes once at the start, when Redis has
	 * been checked (version, eviction policy, persistence), and after each
	 * reconnect. */
	void (*on_state)(void *ctx, enum store_state state, const char *why);
	/* Something has come from Redis, and is read next. May be NULL.
	 * @param now_ns  of uv_hrtime */
	void (*on_heard)(void *ctx, uint64_t now_ns);
	/* A replica was promoted that lacks confirmed writes for ever. What is known of
	 * the shards of the lane is wrong; what was asked was answered with an error. May
	 * be NULL. */
	void (*on_gap)(void *ctx, unsigned lane);
};

/* Start connecting; on_state tells how it went. Wrong configuration (an
 * unreadable URL, no data directory, a data directory that another broker
 * holds) fails here. The config is copied. */
TIDE_MUST_USE int store_open(struct store **out, uv_loop_t *loop,
			     const struct store_config *config,
			     const struct store_hooks *hooks, struct error *err);

/* Answer what Redis still owes for at most `grace_ms`, give TIDE_ESHUTDOWN to
 * the rest, stop the embedded Redis if it is ours, free everything, call
 * on_closed. All of it takes no longer than `grace_ms` and a second, unless that is 0:
 * then the embedded Redis has some time of its own. The store may not be used after the
 * call. */
void store_close(struct store *s, int64_t grace_ms, void (*on_closed)(void *ctx),
		 void *ctx);

/* A close that is under way waits for no answers any more, and for the end of the
 * embedded Redis a second at most. Not after on_closed. */
void store_hurry(struct store *s);

/* From here on the answers to writes wait for replicas, if the configuration says so. A
 * start does not: it reads, and tells nobody. */
void store_confirm_begin(struct store *s);
/* "master", "replicas=N", "synced=N"; "none" with --store none. */
const char *store_confirm_level(const struct store *s);

bool store_is_durable(const struct store *s);
enum store_state store_state(const struct store *s);

/* The largest body of a message that Redis takes (proto-max-bulk-len, as the last
 * connection found it); SIZE_MAX with --store none. */
size_t store_body_max(const struct store *s);
#define STORE_BODY_MAX_MIN ((size_t)1 << 20) /* no Redis takes less */

/* The trouble of a Redis that is connected: redis_trouble.h. */
enum store_trouble {
	STORE_TROUBLE_MEMORY,   /* it has no more, or may not take more */
	STORE_TROUBLE_DISK,     /* it cannot write */
	STORE_TROUBLE_READONLY, /* it is a replica */
	STORE_TROUBLE_REPLICAS, /* it has too few */
	STORE_TROUBLE_BUSY,     /* it is loading, or a script holds it up */
	STORE_TROUBLE_DENIED,   /* its user may not */
	STORE_TROUBLE_TYPE,     /* a key has another type */
	STORE_TROUBLE_OTHER,
	STORE_REFUSALS,
	STORE_TROUBLE_SILENT = STORE_REFUSALS, /* it does not answer */
	STORE_TROUBLE_UNCONFIRMED, /* fewer replicas than --confirm asks for have it */
	STORE_TROUBLES
};
const char *store_trouble_name(enum store_trouble kind);
/* Redis takes no writes because of it; else some requests fail. */
bool store_trouble_is_total(enum store_trouble kind);
/* One sentence about a trouble that lasts, with what to do; it has no name or address. */
const char *store_trouble_text(const struct store *s, enum store_trouble kind);
/* Does the trouble last? */
bool store_has_trouble(const struct store *s, enum store_trouble kind);
/* The first sentence of those that are so, for those who may see names: it names the key
 * of another type. "": there is none. Good until the next turn. */
const char *store_trouble_now(const struct store *s);
/* Why the Redis that was found again cannot be used, or not yet: without a name or
 * address. NULL: it can, or is away. */
const char *store_unfit(const struct store *s);
/* When the certificate ends that Redis is shown; 0: it is shown none. */
int64_t store_tls_until_unix_ms(const struct store *s);
/* For STATS: that of store_state, or "silent", or "refusing" if Redis takes no writes. */
const char *store_state_name(const struct store *s);

/* Several owners: the vhosts of a store are split into cells, each with one owner at a
 * time. A store that is not split is one cell. */
#define STORE_CELLS_MAX 64
#define STORE_NO_CELL UINT32_MAX
/* 1: not split. */
unsigned store_cells(const struct store *s);
/* Ours; STORE_NO_CELL while another broker owns each of them. */
unsigned store_cell(const struct store *s);
/* That of a vhost: of `DECLARE vhost cell=`, else by its name. */
unsigned store_cell_of(const struct store *s, struct slice vhost);
/* It is of our cell. */
bool store_has_vhost(const struct store *s, struct slice vhost);
/* For how long a cell has had no owner, as far as we see; 0: it has one. */
uint64_t store_cell_vacant_ms(const struct store *s, unsigned cell);
/* A vhost with a place was declared, and is in that cell for good. */
bool store_is_placed(const struct store *s, struct slice vhost);

/* Of a document, or of a field of one, that each cell has for itself: "name", and
 * "name:2" in cell 2. */
#define STORE_CELL_NAME_MAX 64
void store_cell_name(const struct store *s, const char *name,
		     char out[STORE_CELL_NAME_MAX]);
/* What all cells share counts its changes: who sees another number reads it anew. Without
 * cells it is 0. */
enum store_change { STORE_CHANGE_USERS, STORE_CHANGE_RULES, STORE_CHANGE_PLACES };
uint64_t store_changes(const struct store *s, enum store_change what);
/* Count a change of the rules, behind what was written before. Users are counted with
 * what is written of them. */
void store_count_rules(struct store *s);
/* Another broker owns a cell. */
bool store_has_others(const struct store *s);
/* Our vhost, which is empty, is declared in that cell. From the call on it is there. */
void store_vhost_place(struct store *s, struct slice vhost, unsigned cell,
		       void (*on_done)(void *ctx, int status, const char *text),
		       void *ctx);

#define STORE_ADDRESS_MAX 256

/* What the brokers of a store know of each other, with store_config.at. */
struct store_membership {
	const char *self;   /* our incarnation; "" without store_config.at */
	const char *secret; /* that all of them know; "": not known yet */
	/* The broker that owns the cell, by its incarnation; "": this one, or none. */
	const char *owner;
	const char *owner_at; /* "": it lets no other broker in */
	uint64_t owner_node;
};
void store_membership(const struct store *s, unsigned cell, struct store_membership *out);

/* For STATS and the metrics; all since the start. */
struct store_stats {
	const char *kind;  /* "embedded", "redis", "sentinel", "none" */
	char address[256]; /* without user and password; with Sentinel the master's */
	unsigned sentinels, sentinels_known; /* those that answer; 0 without Sentinel */
	char version[32];
	uint64_t requests;
	uint64_t transactions;
	uint64_t reconnects;
	uint64_t bytes_sent;
	uint64_t pending_requests; /* asked and not answered */
	size_t pending_bytes;
	uint64_t commands;                /* in these requests */
	uint64_t refused[STORE_REFUSALS]; /* by enum store_trouble */
	/* From the end of the turn that asks to the answer, in tally_times_ns. What waits
	 * for a connection waits for its answer. */
	struct tally round_trip;
	/* Of all masters together, as they told last: store_memory_ask. */
	uint64_t memory_bytes, memory_max_bytes; /* 0: not known; no limit */
	double memory_percent; /* of its limit, of the master that is fullest */
	/* Of a Redis Cluster. */
	bool is_cluster;
	unsigned slots_without_master; /* what they have waits */
	unsigned slots_held;           /* that have requests, and are not sent any now */
	unsigned stuck_slot;           /* one of those that are held for long */
	uint64_t stuck_ms;             /* since when; 0: none is */
};
void store_stats(const struct store *s, struct store_stats *out);

/* One master of the store: a single Redis is one. */
struct store_master {
	const char *address; /* the store's */
	const char *state;   /* as store_state_name gives it */
	bool is_up;          /* and answers */
	bool is_away;        /* was up, and does not answer */
	unsigned slots;      /* 0 without a Redis Cluster */
	unsigned replicas;   /* that follow it */
	uint64_t lag_bytes;  /* what the slowest of them lacks */
	uint64_t pending_requests, reconnects;
	size_t pending_bytes;
	uint64_t round_trip_ns;                  /* mean; 0: none so far */
	uint64_t memory_bytes, memory_max_bytes; /* as in store_stats */
};
/* The next master; *place is 0 for the first. False: there is none. */
bool store_master_next(const struct store *s, unsigned *place, struct store_master *out);
/* Have each Redis tell how much memory it has, for the next store_stats. One such
 * question at a time is under way, and none while it is away. */
void store_memory_ask(struct store *s);

/* The sorted sets of a shard; a stored message is in exactly one of them. */
enum store_set { STORE_READY, STORE_DELAYED, STORE_BURIED, STORE_UNACK, STORE_SET_COUNT };

/* The key names of a shard of a queue, or of a partition of a topic. Freed by
 * store_shard_destroy, which accepts NULL; the requests under way do not need it. */
struct store_shard;
struct store_shard *store_shard_create(struct slice vhost, struct slice queue,
				       unsigned index);
void store_shard_destroy(struct store_shard *shard);
/* The prefix of all its keys, for a line in the log. */
const char *store_shard_prefix(const struct store_shard *shard);

/* The connection that has the requests of a shard now: 0 and up, always 0 with a single
 * Redis. What goes by one is not held up by another. */
unsigned store_lane(const struct store *s, const struct store_shard *shard);
/* How many there are; 1 with a single Redis. */
unsigned store_lanes(const struct store *s);
/* The connection of all that is not of a shard: definitions, users, locks. */
unsigned store_meta_lane(const struct store *s);
/* Requests of the shard wait for its slot, which is being moved, or has no master: the
 * others of its lane go on. */
bool store_is_held(const struct store *s, const struct store_shard *shard);
/* Are there such shards? */
bool store_holds_any(const struct store *s);
/* The lane's Redis is lost, or does not answer. */
bool store_lane_is_away(const struct store *s, unsigned lane);

typedef void (*store_done_fn)(void *ctx, int status, const char *text);

/* Ask what is wrong with Redis, behind all that was asked before: `text` is the sentence
 * with its details; NULL: nothing is. */
void store_trouble_ask(struct store *s, store_done_fn on_done, void *ctx);

/* The writes of a batch are one transaction. Its removals are sent before it
 * and in none: a Redis whose memory is out refuses whatever stands in a MULTI,
 * and it is removals that free some. A message may be named by at most one of
 * insert, move and remove in a batch, apart from tries. Built by hand as RESP in
 * buffers that are used again. */
struct batch;

struct batch *store_batch_begin(struct store *s, struct store_shard *shard);
/* A new message: its body, and its place in `set`. Score: the rank (ready),
 * when it is due (delayed), the ack deadline (unack), when it was buried; all
 * times in unix ms. The rank is kept with the body too. A message that expires
 * enters the expiry set. */
struct store_insert {
	const struct msg *msg;
	double rank;
	int64_t expires_unix_ms; /* in this queue; 0: never */
	enum store_set set;
	double score;
};
void batch_insert(struct batch *b, const struct store_insert *insert);
/* From one set to another, or (from == to) to another score. */
void batch_move(struct batch *b, uint64_t id, enum store_set from, enum store_set to,
		double score);
/* Into the expiry set, which names all that expire and are not buried. */
void batch_expiry(struct batch *b, uint64_t id, int64_t expires_unix_ms);
/* The failures of a message so far. */
#define STORE_REASONS 4 /* why it failed: store_tries_reason */
struct store_tries {
	uint32_t deliveries;
	uint32_t failures;
	const char *reason;             /* of the last failure; NULL when none */
	uint16_t failed[STORE_REASONS]; /* failures, by reason */
};
void batch_tries(struct batch *b, uint64_t id, const struct store_tries *tries);
/* Body, place, tries (when `has_tries`) and expiry (when `has_expiry`). */
void batch_remove(struct batch *b, uint64_t id, enum store_set set, bool has_tries,
		  bool has_expiry);
/* For a message of which it is not known which sets of Redis have it: it leaves all but
 * the one that the same batch inserts it into. */
void batch_leave_others(struct batch *b, uint64_t id, enum store_set set);
/* Likewise: it is removed wherever it is. */
void batch_remove_everywhere(struct batch *b, uint64_t id);
/* A publish that has been seen, and the message that it became. */
struct store_seen {
	struct slice publish_id; /* the publisher's own, any bytes */
	uint64_t msg_id;
	unsigned copy;   /* 0: the message; n: the n-th copy that filters made */
	bool has_offset; /* in a partition of a topic */
	uint64_t offset;
	int64_t until_unix_ms; /* when it may be forgotten: below 10^15 */
};
void batch_dedupe(struct batch *b, const struct store_seen *seen);
/* The id may be forgotten, once the message is removed. */
void batch_dedupe_remove(struct batch *b, const struct store_seen *seen);
/* How many messages the shard keeps that are not buried, and the bytes of their payloads:
 * before the batch, behind its removals, and behind its writes. Redis may refuse this for
 * lack of memory, which is no failure of the batch. */
struct store_size {
	uint64_t messages;
	uint64_t bytes;
};
struct store_sizes {
	struct store_size before, left, after;
};
void batch_size(struct batch *b, const struct store_sizes *sizes);
size_t batch_bytes(const struct batch *b);

struct batch_result {
	int removed;      /* TIDE_OK, or why the removals were refused */
	int written;      /* TIDE_OK, or why inserts, moves and tries were refused */
	const char *text; /* what Redis said, when it refused; else NULL */
	/* A refused request may have been carried out before, on a connection that
	 * was lost. */
	bool is_unsure;
};
typedef void (*batch_done_fn)(void *ctx, const struct batch_result *result);

/* Send it; the batch is the store's from here on. An empty batch completes
 * too (from the loop, like any other). */
void store_batch_commit_take(struct batch *b, batch_done_fn on_done, void *ctx);

/* Batches of any shards that are carried out together or not at all, removals included:
 * one MULTI ... EXEC. Redis refuses all of it while its memory is out.
 *
 * In a Redis Cluster a transaction over several slots has happened as soon as Redis has a
 * record of it, {tide}:commits. Then each slot gets its part; a part that Redis refuses
 * is sent again until Redis takes it. It completes when the record is removed. Meanwhile
 * all other requests of its slots wait, and are carried out behind it. A refusal is told
 * of the record alone: nothing has happened. */
struct store_transaction;
struct store_transaction *store_transaction_begin(struct store *s);
void store_transaction_add_take(struct store_transaction *t, struct batch *b);
/* The members so far are of several slots of a Redis Cluster. */
bool store_transaction_is_split(const struct store_transaction *t);
/* Send it, as store_batch_commit_take. In the result both codes are the same. */
void store_transaction_commit_take(struct store_transaction *t, batch_done_fn on_done,
				   void *ctx);

struct store_row {
	uint64_t id;
	double score;
	double rank;             /* from the body; 0 when there is no body */
	int64_t expires_unix_ms; /* likewise */
	struct msg *msg;         /* NULL: the body is missing, or `is_corrupt` */
	bool is_corrupt; /* there is a body, and it cannot be read (it was logged) */
	uint32_t deliveries;
	uint32_t failures;
	char reason[32]; /* of the last failure; "" when none */
	uint16_t failed[STORE_REASONS];
};

/* The rows are the store's; to keep a message beyond the call, take a
 * reference. `status` < 0: nothing was read, `text` says why. */
typedef void (*store_rows_fn)(void *ctx, int status, const char *text,
			      struct store_row *rows, size_t count);

/* Read members of a set by (score, id), with their bodies, in one round trip. A member
 * that is no id is logged and left out. */
struct store_read {
	enum store_set set;
	unsigned count;   /* at most; 1-4096 */
	size_t max_bytes; /* of the bodies; one row comes in any case */
	bool ids_only; /* no body is read: msg is NULL and rank 0, the tries are there */
	/* From this index on; a negative one counts from the end, as in ZRANGE. */
	int64_t start;
	/* Or from this place in the order of (score, id) on. */
	bool has_place;
	double score;
	uint64_t id;
	/* Or `count` ids: those that are members of the set, in this order. */
	const uint64_t *ids;
};
void store_read(struct store *s, struct store_shard *shard, const struct store_read *read,
		store_rows_fn on_rows, void *ctx);

/* The ids of the members of a set that have been tried before, in their order. The array
 * is the store's. Reads all tries, in pieces. */
typedef void (*store_tried_fn)(void *ctx, int status, const char *text,
			       const uint64_t *ids, size_t count);
void store_tried_read(struct store *s, struct store_shard *shard, enum store_set set,
		      store_tried_fn on_ids, void *ctx);

struct store_counts {
	uint64_t bodies;
	uint64_t tries;
	uint64_t sets[STORE_SET_COUNT];
};
typedef void (*store_counts_fn)(void *ctx, int status, const char *text,
				const struct store_counts *counts);
void store_read_counts(struct store *s, struct store_shard *shard,
		       store_counts_fn on_counts, void *ctx);

/* The sizes that batches have written: one of these was right, when the last batch
 * was cut short. */
typedef void (*store_size_fn)(void *ctx, int status, const char *text,
			      const struct store_size *sizes, unsigned count);
void store_size_read(struct store *s, struct store_shard *shard, store_size_fn on_size,
		     void *ctx);

/* Which of these messages does a shard have, whatever their state: found[i] for
 * ids[i]. `count` is 1 or more. TIDE_ESHUTDOWN is the only failure. */
typedef void (*store_has_fn)(void *ctx, int status, const bool *found, unsigned count);
void store_read_has(struct store *s, struct store_shard *shard, const uint64_t *ids,
		    unsigned count, store_has_fn on_has, void *ctx);

/* Take messages out of the ready, the delayed and the buried set, into the unack set,
 * where they are until they are moved or removed: those with certain ids, or those that
 * have expired and are not buried. Their score there tells where they were:
 * store_read_taken_from. A request that is sent again after a reconnect gives the same
 * rows.
 */
struct store_take {
	int64_t starts[STORE_UNACK]; /* of each of the sets, from this index on */
	unsigned count;              /* at most; 1-1024 */
	size_t max_bytes;
	/* By ids. 0: those that have expired. No id is there twice. */
	const uint64_t *ids;
	unsigned id_count;
	bool is_look; /* by ids: leave them where they are */
	/* By time. */
	int64_t now_ms;
	/* How many of those that have expired were looked at already: others are held,
	 * or before the indexes. */
	int64_t offset;
	/* Another one for each request, unless the one before has failed. */
	int64_t number;
};
struct store_taken {
	struct store_row *rows; /* by ids: in their order */
	size_t count;
	/* By ids: how many of them were looked at. By time: for the next request; -1: all
	 * have been looked at. */
	int64_t offset;
	int64_t next_ms; /* by time, then: when the next one expires; 0: none does */
};
typedef void (*store_taken_fn)(void *ctx, int status, const char *text,
			       const struct store_taken *taken);
void store_read_take(struct store *s, struct store_shard *shard,
		     const struct store_take *take, store_taken_fn on_taken, void *ctx);
/* Where a message was that is in the unack set by that score. STORE_UNACK: it was not
 * taken by its id. `*at_ms`: by which time it was there, unless it was ready. */
enum store_set store_read_taken_from(double score, int64_t *at_ms);
/* The same of one that was taken because it has expired. */
enum store_set store_read_expired_from(double score);

/* Remove at most `count` (1–4096) members of a set from index `start` on, with
 * all that belongs to them. In two round trips, ids first, so that asking again
 * after a reconnect removes no more; the completion may therefore come after
 * that of a later request. `removed` may then be too low, never too high. */
typedef void (*store_purged_fn)(void *ctx, int status, const char *text,
				uint64_t removed);
struct store_purge {
	enum store_set set;
	int64_t start;
	unsigned count;
	bool wants_ids; /* of what is gone now, whoever has removed it */
};
typedef void (*store_purge_fn)(void *ctx, int status, const char *text, uint64_t removed,
			       const uint64_t *ids, size_t id_count);
void store_purge(struct store *s, struct store_shard *shard,
		 const struct store_purge *purge, store_purge_fn on_purged, void *ctx);

/* Put messages that are in no set back among the ready ones: what a Redis leaves that
 * refuses a part of a removal. Reads all bodies, few at a time. */
void store_lost_return(struct store *s, struct store_shard *shard,
		       store_purged_fn on_returned, void *ctx);

/* Remove the tries of messages that are gone: what a removal leaves whose first command
 * bounced from an open slot, and that nobody sent again. Reads all tries, in pieces. */
void store_tries_trim(struct store *s, struct store_shard *shard,
		      store_purged_fn on_trimmed, void *ctx);

/* Seen ids, by `until_unix_ms`, from index `start`, `count` at most (1–4096). The
 * rows are the store's; members that cannot be read are logged and left out, and
 * `total` counts them too. */
typedef void (*store_seen_fn)(void *ctx, int status, const char *text,
			      const struct store_seen *rows, size_t count, size_t total);
void store_dedupe_read(struct store *s, struct store_shard *shard, int64_t start,
		       unsigned count, store_seen_fn on_rows, void *ctx);
/* Remove at most `count` (1–4096) of those whose time is `until_unix_ms` or earlier. */
void store_dedupe_trim(struct store *s, struct store_shard *shard, int64_t until_unix_ms,
		       unsigned count, store_purged_fn on_trimmed, void *ctx);

/* Remove these: their messages are gone. on_done may be NULL. */
void store_dedupe_remove(struct store *s, struct store_shard *shard,
			 const struct store_seen *seen, size_t count,
			 store_done_fn on_done, void *ctx);

enum store_table {
	STORE_VHOSTS,        /* set of names */
	STORE_EXCHANGES,     /* hash of a vhost: name -> definition */
	STORE_QUEUES,        /* hash of a vhost: name -> definition */
	STORE_TOPICS,        /* hash of a vhost: name -> definition */
	STORE_BINDINGS,      /* set of a vhost: one text each, in `name` */
	STORE_PAUSES,        /* hash of a vhost: direction and queue -> until when */
	STORE_LOCKS,         /* hash of a vhost: name -> token and ttl, of those held */
	STORE_USERS,         /* hash: name -> what it may do; of all vhosts */
	STORE_VHOST_OPTIONS, /* hash: vhost -> its options, if it has any */
	STORE_TABLE_COUNT,
};

/* `vhost` and `value` are empty where the table has none. on_done may be NULL. */
void store_definition_set(struct store *s, enum store_table table, struct slice vhost,
			  struct slice name, struct slice value, store_done_fn on_done,
			  void *ctx);
void store_definition_remove(struct store *s, enum store_table table, struct slice vhost,
			     struct slice name, store_done_fn on_done, void *ctx);

struct store_queue { /* or topic */
	struct slice vhost, name;
	unsigned shards;
};
/* Remove a queue, or a topic (STORE_TOPICS, with its partitions counted in `shards`), in
 * two steps. The first removes the definition and leaves a tombstone, at once: without it
 * a crash leaves everything. The second removes the keys of its shards, each behind what
 * was asked of that shard before, then the tombstone: what a crash leaves of it is
 * removed by store_definition_load. Each step may be repeated when Redis has refused it.
 */
void store_erase_begin(struct store *s, enum store_table table,
		       const struct store_queue *queue, store_done_fn on_done, void *ctx);
void store_erase_finish(struct store *s, enum store_table table,
			const struct store_queue *queue, store_done_fn on_done,
			void *ctx);
/* Set the options of a topic, with the set of topics and the set of its partitions,
 * at once. */
void store_definition_set_topic(struct store *s, const struct store_queue *topic,
				struct slice value, store_done_fn on_done, void *ctx);

/* An error says that the store has layout 1 and what to do: its definitions have names
 * that nobody looks for. A single Redis was migrated when its holder was taken. */
void store_layout_check(struct store *s, store_done_fn on_done, void *ctx);

struct store_definition {
	enum store_table table;
	struct slice vhost, name, value;
};
/* Every definition, when transactions that a crash has cut short, and what
 * store_erase_begin has begun, are finished: users, vhosts and their options first, then
 * vhost by vhost its exchanges, queues, topics, bindings, pauses, locks. on_end comes
 * last, also after a failure. */
typedef void (*store_definition_fn)(void *ctx, const struct store_definition *d);
void store_definition_load(struct store *s, store_definition_fn on_definition,
			   store_done_fn on_end, void *ctx);

/* The names of our vhosts, as Redis has them now. */
void store_vhosts_read(struct store *s, store_definition_fn on_vhost,
		       store_done_fn on_end, void *ctx);

/* Small hashes beside the messages, for what the broker keeps of itself, what
 * scripts keep and what schedules have done: the document "rules:last" is the
 * hash {tide}:rules:last. */

struct store_field {
	struct slice name;
	struct slice value; /* of a change, data == NULL: remove the field */
};
/* The fields are the store's, in no order. `status` < 0: nothing was read. */
typedef void (*store_fields_fn)(void *ctx, int status, const char *text,
				const struct store_field *fields, size_t count);

void store_document_read(struct store *s, const char *name, store_fields_fn on_fields,
			 void *ctx);
/* Set and remove fields, at least one; others stay. All that are set are set at
 * once. The removals go first and by themselves, so that they pass when memory is
 * out; on_done has the first error. It may be NULL. */
void store_document_change(struct store *s, const char *name,
			   const struct store_field *changes, size_t count,
			   store_done_fn on_done, void *ctx);
/* Remove the document. on_done may be NULL. */
void store_document_remove(struct store *s, const char *name, store_done_fn on_done,
			   void *ctx);

/* The failures of a message so far, as the text that Redis has of it. "<deliveries>
 * <failures> <last reason> <reason>=<count>...": older brokers wrote no counts. */
#define STORE_TRIES_TEXT_MAX 160

/* The reason of that number, below STORE_REASONS. */
const char *store_tries_reason(unsigned i);
/* Gives the length. */
size_t store_tries_format(const struct store_tries *tries,
			  char out[STORE_TRIES_TEXT_MAX]);

/* A publish that has been seen, as a member of a sorted set.
 *
 * "<message id> <publish id>", or "<message id>+<n> <publish id>" of the n-th copy that
 * filters made of it; its score is the time when it may be forgotten. In a partition of a
 * topic the offset stands before the space: "<message id>@<offset> <publish id>". */
#define STORE_DEDUPE_HEAD_MAX (ID_HEX_LEN + 40)

/* Write the part before the publish id; gives its length. */
size_t store_dedupe_format_head(const struct store_seen *seen,
				char out[STORE_DEDUPE_HEAD_MAX]);
/* Score and member, as words of a command. */
void store_dedupe_add_words(struct buf *out, const struct store_seen *seen);
/* The slice points into `member`. TIDE_ESYNTAX: no broker wrote it. */
TIDE_MUST_USE int store_dedupe_parse_member(struct slice member, struct store_seen *out);
