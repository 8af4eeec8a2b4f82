/* order.h: groups of a shard's messages, of which only so many are at work at a time.
 *
 * A message at work has a *slot* of its group: while somebody holds it, and while it
 * waits for its next attempt. Ready messages of a group without a free slot are *parked*:
 * out of the way of other groups, still ready, still in Redis's ready set. When a slot
 * becomes free the first one of them is *due*: it goes back into the ready window.
 *
 * A group is known while it has a slot in use or a parked message, by a keyed hash of its
 * name: two groups that share one would wait for each other, and nothing worse.
 *
 * The first parked messages of a group are entries. Of the others memory keeps the place
 * alone, once Redis has them: `ids`. They sort anywhere among the entries.
 *
 * shard.h has what is asked of a shard with such an order. */
#pragma once

#include <bsd/sys/tree.h>

#include "base/table.h"
#include "window.h"

/* Places of messages, the first of them on top: 16 bytes each. */
struct place_heap {
	struct place *places;
	size_t count, cap;
};

/* The heap is not empty. */
static inline struct place place_heap_top(const struct place_heap *h)
{
	return h->places[0];
}

/* Entries by their places, wherever else they are: 40 bytes each. */
struct place_node {
	RB_ENTRY(place_node) node;
	struct entry *entry;
};

RB_HEAD(place_node_tree, place_node);

struct place_tree {
	struct place_node_tree nodes;
	struct pool pool;
};

enum order_by {
	ORDER_NONE,
	ORDER_KEY,
	ORDER_HEADER,
	ORDER_SHARD, /* all of a shard are one group; none is ever parked */
};

struct order_spec {
	enum order_by by;
	const char *header; /* of ORDER_HEADER; a message without it is in no group */
	uint32_t inflight;  /* slots of a group */
	const char *label;  /* for the log: "queue 'jobs'" */
};

struct group {
	UT_hash_handle hh;
	uint64_t hash;
	uint32_t slots;   /* in use */
	uint32_t waiting; /* of these, by messages that wait for their next attempt */
	/* Slots that have become free since parked ones were taken out the last time. */
	uint32_t due;
	uint32_t loading; /* of `ids`, that are being read; they are in it no more */
	struct place loading_first;
	uint32_t offered; /* messages that the search under way has passed */
	uint32_t search;  /* which search that was */
	bool is_roomy;    /* in the list of those with something due */
	bool is_wanting;  /* in the list of those of which ids are to be read */
	TAILQ_ENTRY(group) roomy_link, wanting_link, parked_link;
	struct window parked;
	struct place_heap ids;
};

TAILQ_HEAD(group_list, group);

/* One of the places that are being read. */
struct order_loading {
	struct place place;
	struct group *group;
};

#define ORDER_LOAD_MAX 256

struct order {
	struct order_spec spec;
	struct group *groups;
	struct group whole; /* of ORDER_SHARD; always in the table */
	struct pool pool;   /* of groups */
	struct pool *lanes;
	struct group_list roomy, wanting, with_parked;
	/* All that is parked, when nothing is kept elsewhere: with Redis its ready set
	 * has that order. */
	struct place_tree places;
	bool has_places;
	uint64_t parked;                 /* entries, ids and what is being read */
	uint64_t in_redis;               /* of these, ids and what is being read */
	size_t kept_bytes;               /* of the entries */
	uint64_t busy;                   /* groups with a slot in use */
	uint64_t blocked;                /* groups with a parked message */
	struct place last;               /* no parked message is behind it */
	uint64_t max;                    /* parked messages, and groups: the limit */
	size_t keep_max, keep_bytes_max; /* entries, above which ids are enough */

	struct order_loading *loads;
	unsigned load_count; /* 0: nothing is being read, or about to be */
	bool is_load_sent;
	bool is_load_void; /* what is being read has been purged */

	/* Groups that the search under way has come by. */
	struct group **offering;
	size_t offering_count, offering_cap;
	uint32_t search;

	bool is_stopped;   /* at the limit: nothing more is parked */
	bool is_skipping;  /* the last search ended before it had an answer */
	int64_t search_ms; /* when the budget was full */
	unsigned search_left;
	int64_t retry_ms;  /* no read before: the last one has failed */
	int64_t logged_ms; /* when the log last said that it is stopped */
};

/* Parked messages are being read, or the search for the next one goes on. */
static inline bool order_is_reading(const struct order *o)
{
	return o->load_count > 0 || o->is_skipping;
}

/* Accepts NULL. It has no entry. */
void order_destroy(struct order *o);

/* A search for one message passes by the ready ones in their order. Is this one of the
 * next of its group, for which there are slots? */
bool order_offers(struct order *o, const struct entry *e);
/* The search has ended. */
void order_offers_end(struct order *o);
/* The entry takes a slot, which may be one too many. @param is_waiting  it is delayed */
void order_take(struct order *o, struct entry *e, bool is_waiting);
/* The entry has come from Redis: when it has a slot there, it has it here. */
void order_adopt(struct order *o, struct entry *e);
/* The entry leaves the state for which it has a slot. */
void order_release(struct order *o, struct entry *e);
/* An entry has left the ready window. When it had been parked before, another one is
 * due instead. Not needed where the edge of the window moves before it. */
void order_left(struct order *o, const struct entry *e);

/* The entry leaves its place in a group. */
void order_unpark(struct order *o, struct entry *e);
/* Of the parked entry its place may be enough, now that Redis has it. The call may free
 * it. */
void order_shrink(struct entry *e);
/* Any parked entry; NULL when there is none. */
struct entry *order_any(const struct order *o);
/* The entries that follow this one, in no order. */
struct entry *order_another(const struct entry *e);
/* The first parked entry at or behind a place, in memory alone; NULL when there is none.
 */
struct entry *order_seek(const struct order *o, struct place from);
/* The last parked entry, in memory alone; NULL when there is none. */
struct entry *order_last(const struct order *o);
/* Some of the messages are parked, and their places alone are known. They will be read:
 * by the next read, which shard_order_load begins; or, when one is under way, after
 * asking again.
 */
bool order_ask(struct order *o, const uint64_t *ids, unsigned count);

/* No place at or before this one may become the edge of the ready window; it depends on
 * whether the window is being refilled. */
struct place order_shadow(const struct order *o, bool is_refilling);
/* The edge of the ready window has moved there: what is parked behind it is forgotten,
 * and `give` called for each entry of it. Returns how many were known by their place
 * alone. */
uint64_t order_give_back(struct order *o, struct place edge,
			 void (*give)(void *ctx, struct entry *e), void *ctx);

/* Forget what is known by its place alone: the shard is being closed. */
void order_forget_ids(struct order *o);

/* The oldest of the messages that are parked first in their groups, of so many groups; 0
 * when there is none. */
uint64_t order_oldest_id(const struct order *o, unsigned looks);

struct order_stats {
	uint64_t groups, groups_blocked, parked, parked_in_redis;
	bool is_stopped;
};
void order_add_stats(const struct order *o, struct order_stats *sum);
