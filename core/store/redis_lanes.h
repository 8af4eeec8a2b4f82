/* redis_lanes.h: the connections of a store: a lane for each master.
 *
 * A single Redis, also one that Sentinels name, is one lane. When the first Redis turns
 * out to be a node of a Redis Cluster, its nodes are asked for the map, and each master
 * gets a lane. slots.h says which request takes which; a lane whose master is away holds
 * up the requests of its own slots.
 *
 * A failover gives a lane another address: what is unanswered is sent again there, in
 * order, as after any reconnect. The map is asked for when a lane is lost or silent, when
 * a request was answered by "not here" (slots.h), and now and then.
 *
 * The lane with the slot of {tide} has the record of the holder (redis_holder.h). Each
 * other lane has one of its own, tide:{<n>}:holder, with the first n whose slot it has.
 */
#pragma once

#include "cluster_map.h"
#include "redis_conn.h"
#include "slots.h"

struct redis_lanes_hooks {
	void *ctx;
	/* As in redis_conn_hooks, of a connection. */
	void (*before_connect)(void *ctx, struct redis_conn *c);
	/* As in store_hooks: STORE_DOWN when one of several is. */
	void (*on_state)(void *ctx, enum store_state state, const char *why);
	void (*on_heard)(void *ctx, uint64_t now_ns);
	void (*on_gap)(void *ctx, unsigned lane);
};

struct redis_lane {
	struct redis_lanes *lanes;
	unsigned index;
	struct redis_conn *conn; /* NULL: not opened yet, or retired */
	struct redis_url url;    /* in a cluster; the host is its own */
	char address[URL_ADDRESS_MAX];
	enum store_state state;
	unsigned slot_count, replicas; /* by the map */
	unsigned tag;                  /* of its record; LANE_NO_TAG: it has none */
	bool is_found;                 /* the map that is being read has it */
	bool is_memory_asked;          /* the store's: the answer is on its way */
};

struct redis_lanes {
	uv_loop_t *loop;
	struct redis_conn_config config; /* of the first */
	struct redis_lanes_hooks hooks;
	struct redis_self self;
	struct tls_context *const *tls; /* the owner's, as it is when it is needed */
	/* To be read: indexes stay. */
	struct redis_lane **lanes;
	size_t count, cap;
	/* Of a Redis Cluster. */
	bool is_cluster;
	struct slots slots;
	struct cluster *cluster;
	unsigned meta;              /* the lane with the slot of {tide} */
	unsigned covered;           /* slots with a master, by the map */
	bool has_map, is_held;      /* {tide}:holder is ours: the others may be opened */
	uint64_t asked_ms;          /* when a map was asked for */
	struct store_stats retired; /* of lanes that are no more */
	uv_timer_t timer;
	enum store_state state;
	unsigned open_count; /* connections, handles, the cluster */
	bool is_closing, is_draining;
	uint64_t close_by_ms;
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

/* `tls` outlives them; it is filled in by before_connect. */
struct redis_lanes *redis_lanes_create(uv_loop_t *loop,
				       const struct redis_conn_config *config,
				       struct tls_context *const *tls,
				       const struct redis_lanes_hooks *hooks);
/* As redis_conn_send; the slot is filled in too. */
void redis_lanes_send(struct redis_lanes *l, struct redis_request *r);
/* The lane that has the requests of a slot now. */
unsigned redis_lanes_of(const struct redis_lanes *l, unsigned slot);
/* The first slot, from this one on, that is the least of those of its master: a single
 * Redis has 0 alone. LAYOUT_SLOTS: there is none. */
unsigned redis_lanes_first_slot(const struct redis_lanes *l, unsigned from);
/* The connection that has {tide}:holder; NULL while there is none. */
struct redis_conn *redis_lanes_meta(const struct redis_lanes *l);
unsigned redis_lanes_meta_index(const struct redis_lanes *l);
/* The sum of all, without what the store itself knows. */
void redis_lanes_stats(const struct redis_lanes *l, struct store_stats *out);
/* As redis_conn_close, of all. */
void redis_lanes_close(struct redis_lanes *l, int64_t grace_ms,
		       void (*on_closed)(void *ctx), void *ctx);
void redis_lanes_hurry(struct redis_lanes *l);
