/* partition.h: one partition of a topic: an ordered, durable log of messages.
 *
 * Offsets are dense from 0. A message has its offset when it is appended; it can be read
 * from the moment on that it is durable. An offset that somebody has read is never
 * another message's, whatever crashes: that is why readers wait for Redis.
 *
 * All appends between two flushes are one group commit. While it is on its way the next
 * one gathers. What Redis refuses fails, with all that has gathered behind it: its
 * offsets are given out again, since nobody has read them.
 *
 * The newest batches are in memory: the tail. All partitions share its limit; the oldest
 * batch goes first. What is not there is read from Redis: cursor.h.
 *
 * Partitions are counted: the topic holds a reference, and so does each request under
 * way. Without keys (durable=0, --store none) the tail is all there is. */
#pragma once

#include <sys/queue.h>

#include "base/waiter.h"
#include "store/store_log.h"
#include "record.h"

struct partition;

struct partition_ops {
	/* There is more to read, or less is kept, or what a cursor waited for was read,
	 * or cannot be. */
	void (*on_news)(struct partition *p);
	/* An append has landed. May be NULL. */
	void (*on_growth)(struct partition *p);
};

TAILQ_HEAD(partition_list, partition);
TAILQ_HEAD(tail_list, tail_batch);
STAILQ_HEAD(append_list, append);
STAILQ_HEAD(partition_calls, partition_call);
STAILQ_HEAD(log_recovers, log_recover);
TAILQ_HEAD(cursor_list, cursor);
TAILQ_HEAD(merge_list, merge);
TAILQ_HEAD(compact_list, compact);

/* A partition without keys keeps its newest batches of at most so many bytes: its start
 * moves. They do not count in tail_bytes. */
#define PARTITION_MEMORY_BYTES ((size_t)16 << 20)

/* Appends to one Redis: a master that is away holds up its own partitions alone. */
struct partition_lane {
	struct partition_list dirty;  /* that have something to append */
	struct partition_list flying; /* whose append is under way */
	int64_t retry_unix_ms;        /* after a refusal: nothing is sent before */
};

/* The environment that all partitions of a broker share. After partition_env_init the
 * owner fills the first four; the others are the floor's own, to be read. */
struct partition_env {
	const struct partition_ops *ops;
	struct store *store;   /* NULL when nothing is durable */
	int64_t now_ms;        /* wall clock of this turn */
	size_t tail_max_bytes; /* of all batches in `tail`, and what they cost beside */
	struct partition_lane **lanes; /* by store_lane; grows */
	size_t lane_count, lane_cap;
	struct partition_list unkept; /* without keys, that have something to append */
	size_t unstored_bytes;        /* of messages that are not durable yet */
	struct tail_list tail; /* the batches of partitions with keys, the oldest first */
	size_t tail_bytes;
	size_t memory_bytes;  /* of the batches of partitions without keys */
	size_t reading_bytes; /* that cursors have read and not yet used */
	struct partition_stats {
		uint64_t appended, batches, refused, read_batches;
		uint64_t merged;    /* batches that have become part of a larger one */
		uint64_t compacted; /* messages that compaction has removed */
	} stats;
	struct partition_calls later; /* completions: partition_flush makes them */
	struct cursor_list failed;    /* they may read again after a rest */
	int64_t read_logged_ms;       /* when the log last said that a read has failed */
	struct log_recovers recovers; /* that wait for others */
	unsigned recovering;          /* that are under way */
	struct append_list spare;
	unsigned spare_count;
	struct merge_list merges; /* that are due */
	unsigned merge_flights;
	int64_t merge_retry_ms;          /* after a refusal */
	struct compact_list compactions; /* partitions that are to be compacted */
	struct compact_pass *pass;       /* one at a time; NULL: none is under way */
	size_t compact_key_bytes;        /* of its keys, at most */
	int64_t compact_retry_ms;        /* after a refusal */
};

void partition_env_init(struct partition_env *env);
/* No partition, no cursor and no request of theirs is left. */
void partition_env_deinit(struct partition_env *env);

/* @param owner  whose it is: ops get it by partition_owner
 * @param keys   taken; NULL: nothing of it is kept */
struct partition *partition_create(struct partition_env *env, void *owner, unsigned index,
				   struct store_shard *keys);
/* The owner has no use for it any more: publishers, and commits that were held, are told
 * TIDE_ENOTFOUND; cursors find nothing. */
void partition_close(struct partition *p);
/* Send no append and no commit until further notice: Redis does not have the definition
 * of the topic. */
void partition_hold(struct partition *p, bool is_held);
void *partition_owner(const struct partition *p);
unsigned partition_index(const struct partition *p);
/* NULL: nothing of it is kept. */
struct store_shard *partition_keys(const struct partition *p);

/* Read from Redis where it begins and ends. on_group is called for each group that has
 * committed; then the waiter is told. */
typedef void (*partition_group_fn)(struct partition *p, struct slice group,
				   uint64_t committed);
void partition_recover(struct partition *p, partition_group_fn on_group,
		       struct waiter *waiter);

/* Append a message; gives its offset. The waiter, unless NULL, is counted up and told
 * when it is durable, or refused. Nothing of the message is kept. */
uint64_t partition_append(struct partition *p, const struct msg *m,
			  struct waiter *waiter);
/* Likewise, with a publish id, which is written with the message: Redis has both or none.
 * Its offset is filled in. */
uint64_t partition_append_seen(struct partition *p, const struct msg *m,
			       struct store_seen *seen, struct waiter *waiter);

/* The records of the partitions that wait for one lane of the store. */
size_t partition_waiting_bytes(const struct partition_env *env, unsigned lane);

uint64_t partition_start(const struct partition *p); /* the first offset that is kept */
uint64_t partition_end(const struct partition *p);   /* what the next append gets */
uint64_t partition_readable(const struct partition *p); /* the end of what can be read */
/* The offset `count` before that; the first that is kept, if there are fewer. */
uint64_t partition_last(const struct partition *p, uint64_t count);
uint64_t partition_bytes(const struct partition *p);  /* of its batches */
int64_t partition_last_ms(const struct partition *p); /* of its last message; 0: none */

/* When the message of that offset was appended; 0: it is not in memory. */
int64_t partition_time_at(const struct partition *p, uint64_t offset);

/* Send what has gathered, unless appends are under way. At the end of each turn. What was
 * appended without keys can be read from now on. */
void partition_flush(struct partition_env *env);
/* Has no partition anything to send or under way? */
bool partition_is_idle(const struct partition_env *env);
/* When partition_flush wants to be called; 0: at the end of the next turn, if at all. */
int64_t partition_due_ms(const struct partition_env *env);
/* The tail may be too large: tail_max_bytes is less now. partition_flush sees to it too.
 */
void partition_shrink(struct partition_env *env);

/* Store what a group has committed, written behind by its owner. Without keys it is
 * not kept. */
void partition_commit(struct partition *p, const struct store_log_commit *commit,
		      store_done_fn on_done, void *ctx);

/* Where to read from, by a time: the offset of the first message of that time or later;
 * partition_readable when there is none. */
typedef void (*partition_found_fn)(void *ctx, int status, const char *text,
				   uint64_t offset);
void partition_find_time(struct partition *p, int64_t unix_ms,
			 partition_found_fn on_found, void *ctx);

/* Likewise where its last bytes begin: the base of the last batch with which it has so
 * many; partition_start when it has fewer. */
void partition_find_bytes(struct partition *p, uint64_t bytes,
			  partition_found_fn on_found, void *ctx);
/* Up to which offset all is older than that time, as far as whole days tell; without keys
 * as far as whole batches do. */
uint64_t partition_find_age(const struct partition *p, int64_t unix_ms);

/* Drop all messages below the offset, which is at most partition_readable: whole batches
 * in Redis, the rest cannot be read any more. on_done may be NULL. What Redis refused to
 * drop is asked for again by the next call, whatever its offset. */
void partition_trim(struct partition *p, uint64_t start, store_done_fn on_done,
		    void *ctx);
/* Redis was asked to drop something, and has refused. */
bool partition_trim_failed(const struct partition *p);

/* The appends of another owner's transaction to a partition, all or nothing.
 *
 * With keys its messages have their offsets from the moment on that they are appended.
 * What is appended behind them waits until the joint has ended. If something before them
 * is refused, the joint fails before it was sent. If the joint is refused, so is what
 * waits behind it. Without keys its messages are appended at its end.
 *
 * It is built within one call: nothing else may be appended in between. */
struct joint {
	STAILQ_ENTRY(joint) link; /* of its owner */
	struct partition *partition;
	struct msg **messages; /* without keys */
	size_t count, cap;
	int status; /* below 0: it has failed */
};

STAILQ_HEAD(joint_list, joint);

struct joint *joint_create(struct partition *p);
/* A reference to the message may be taken. */
void joint_append(struct joint *j, struct msg *m);
/* Seal a joint: all its appends are added. */
void joint_seal(struct joint *j);

/* May the joint be sent: has all before it ended? */
bool joint_is_ready(const struct joint *j);
/* Why it has failed; TIDE_OK: it has not, or its topic is gone. */
int joint_status(const struct joint *j);
/* Write it into the transaction. Gives its bytes. */
size_t joint_send(struct joint *j, struct store_transaction *t);
/* The transaction has ended, or does not take place; the joint is destroyed. */
void joint_end_take(struct joint *j, int status, const char *text);
