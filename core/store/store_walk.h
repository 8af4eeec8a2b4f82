/* store_walk.h: read all keys of a store page by page, look at single members again, and
 * edit them: for who checks a store, not for the broker.
 *
 * A Redis Cluster is walked master by master; a slot that moves meanwhile may be seen
 * twice, or not at all. No request reads more than a page. The slices that a completion
 * gets are the store's.
 */
#pragma once

#include "layout.h"
#include "store.h"

struct store_walk_key {
	struct slice name;
	struct slice type; /* as TYPE says */
	bool has_ttl;
};
typedef void (*store_walk_keys_fn)(void *ctx, int status, const char *text, uint64_t next,
				   const struct store_walk_key *keys, size_t count);
/* The first slot of a master, at or behind `from`: a single Redis has 0 alone.
 * STORE_WALK_END: there is none. */
#define STORE_WALK_END LAYOUT_SLOTS
unsigned store_walk_master(const struct store *s, unsigned from);

struct store_walk_place {
	unsigned slot;   /* of the master */
	uint64_t cursor; /* of SCAN: 0 is the start, and as `next` the end */
};
/* The keys of the broker that a master has. */
void store_walk_keys(struct store *s, const struct store_walk_place *from, unsigned count,
		     store_walk_keys_fn on_keys, void *ctx);

struct store_walk_row {
	struct slice member; /* or field */
	struct slice value;  /* or score; empty in a set */
	/* Of a shard: bit n is set when the id at the front of the member is in the key
	 * with the enum layout_key n; of the dedupe key, the member itself. */
	unsigned found;
};
typedef void (*store_walk_rows_fn)(void *ctx, int status, const char *text, uint64_t next,
				   const struct store_walk_row *rows, size_t count);

/* A page of a key from a cursor on, as with store_walk_keys. */
struct store_walk_page {
	struct slice key;
	const char *type; /* "hash", "set", "zset" */
	uint64_t cursor;
	unsigned count;
};
void store_walk_page(struct store *s, const struct store_walk_page *page,
		     store_walk_rows_fn on_rows, void *ctx);

/* The same of a key of a shard, with all that `wanted` asks about each id, at one moment.
 */
void store_walk_shard(struct store *s, const struct store_walk_page *page,
		      const struct layout_name *name, unsigned wanted,
		      store_walk_rows_fn on_rows, void *ctx);
/* The same of these members: rows in their order, without values. */
void store_walk_members(struct store *s, const struct layout_name *name, unsigned wanted,
			const struct slice *members, size_t count,
			store_walk_rows_fn on_rows, void *ctx);

/* A question: the value of a field (HGET); else whether there is such a member
 * (SISMEMBER) or key (EXISTS), or some with scores of a range, "<from> <to>" (ZCOUNT),
 * answered by a row with the value "1"; or with "2", if they are several. */
struct store_walk_question {
	const char *verb;
	struct slice key;
	struct slice member; /* ignored by EXISTS */
};
/* Rows in the order of the questions, which are asked slot by slot; value.data is NULL
 * where there is nothing. */
void store_walk_ask(struct store *s, const struct store_walk_question *questions,
		    size_t count, store_walk_rows_fn on_rows, void *ctx);

/* ZADD, ZREM or HDEL; each may be done twice. All are of one shard. */
struct store_walk_edit {
	const char *verb;
	struct slice key;
	struct slice member;
	double score; /* of ZADD */
};
/* on_done has the first error. */
void store_walk_edit(struct store *s, const struct store_walk_edit *edits, size_t count,
		     store_done_fn on_done, void *ctx);
