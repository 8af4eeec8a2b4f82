/* redis_conn.h: the lasting connection to one Redis: a queue of requests that
 * outlives any number of redis_links.
 *
 * Requests are answered in order. A link that is lost, or that is silent for
 * longer than command_timeout_ms while something is owed, is replaced, for
 * ever, with growing pauses (a third of that time is told: redis_trouble); what is
 * unanswered is sent again in order. A request that Redis hangs up on, by its own word or
 * each time that it comes first, is answered with an error instead, so that those behind
 * it go on. The first connection alone may fail for good (STORE_FAILED), unless another
 * broker takes the store over: nothing is sent on a link before it is known to be ours.
 * Answers may wait for replicas (redis_confirm).
 * With Sentinel an answer that only a replica gives (READONLY, MASTERDOWN), or LOADING,
 * is the loss of the link: its request is sent again to the master of then. While Redis
 * is stale (redis_holder) all requests are answered with an error. What is queued in a
 * turn of the loop is written together at the end of it.
 *
 * NOREPLICAS passes when replicas come back, and nothing of the request was carried out.
 * So the request is sent again, and those behind it too, whatever they are answered:
 * Redis may have taken a later one. Until Redis takes a write, one request at a time is
 * sent. */
#pragma once

#include "redis_confirm.h"
#include "redis_hello.h"
#include "redis_holder.h"
#include "redis_replay.h"
#include "redis_request.h"
#include "redis_trouble.h"
#include "redis_url.h"
#include "store.h"
#include "tls/tls.h"

struct redis_conn_config {
	const struct redis_url *url; /* outlives the connection */
	const char *address;         /* for people; outlives the connection */
	const char *set_fsync;       /* see redis_hello */
	int64_t connect_timeout_ms;
	int64_t command_timeout_ms;
	bool is_patient; /* a refused first connection is tried again */
	bool is_joining; /* and for ever: others are up already */
	enum store_hold hold;
	unsigned node;
	unsigned cells;                            /* see store_config */
	const char *at;                            /* see store_config */
	bool is_sole;                              /* see redis_holder */
	const struct redis_confirm_level *confirm; /* outlives the connection */
	bool is_cluster;         /* a node of a Redis Cluster is expected */
	struct redis_self *self; /* outlives the connection */
};

struct redis_conn_hooks {
	void *ctx;
	/* Before each try to connect: find out where to. redis_conn_connect or
	 * redis_conn_cannot_connect answers, in the call or later. */
	void (*before_connect)(void *ctx);
	/* STORE_UP, STORE_DOWN, STORE_STALE, STORE_FAILED, as in store_hooks. */
	void (*on_state)(void *ctx, enum store_state state, const char *why);
	/* As in store_hooks. */
	void (*on_heard)(void *ctx, uint64_t now_ns);
	/* This Redis turns out to be a node of a Redis Cluster: nothing comes of this
	 * connection any more. */
	void (*on_cluster)(void *ctx);
	/* Of a node of a Redis Cluster: it is away, silent, or no master of what it was
	 * asked for. */
	void (*on_elsewhere)(void *ctx);
	/* Before and after a request's owner is told a reply, and its last one. As
	 * slots_reply: false if the owner is not to be told. NULL: all are. */
	bool (*may_answer)(void *ctx, struct redis_request *r, const redisReply *reply);
	void (*on_answered)(void *ctx, unsigned slot);
	/* A request of the connection's own is sent before all others, for what
	 * slots_send does not see: it comes back by the two above. */
	void (*on_own)(void *ctx, struct redis_request *r);
	/* As in store_hooks. */
	void (*on_gap)(void *ctx);
};

enum phase {
	PHASE_WAITING,    /* for the next try */
	PHASE_ASKING,     /* before_connect has not answered */
	PHASE_CONNECTING, /* a link is on its way */
	PHASE_HELLO,      /* connected, being checked */
	PHASE_HOLDER,     /* is the store ours? */
	PHASE_STANDBY,    /* connected; not our store, to be asked again */
	PHASE_UP,
	PHASE_FAILED, /* the first connection failed for good */
	PHASE_CLOSED, /* only handles are left */
};

struct redis_conn {
	uv_loop_t *loop;
	struct redis_conn_config config;
	struct redis_conn_hooks hooks;
	enum phase phase;
	enum store_state state;
	struct redis_link *link; /* from CONNECTING to UP */
	unsigned open_count;     /* handles and links that are not closed */
	uv_timer_t timer;        /* pause, timeouts, by phase */
	uv_timer_t grace;
	uv_prepare_t prepare;
	uv_idle_t idle;
	struct redis_requests waiting; /* those that no link has */
	struct redis_request
		*last_sent; /* of those that the link has; NULL: it has none */
	/* Redis lacks replicas: it is given one request at a time. */
	bool is_held;
	bool is_dropping; /* requests behind the refused one are on the link */
	struct redis_requests again;
	uv_timer_t hold_timer;
	uint64_t hold_ms;
	/* The first one without an answer when a connection was lost. */
	struct redis_request *suspect;
	unsigned suspect_losses;
	char refusal[128];        /* what Redis said to it before it hung up; "" */
	struct store_stats stats; /* its own figures alone; the rest is 0 */
	int64_t backoff_ms;
	uint64_t began_at_ms; /* of the loop's clock: start, or the loss */
	uint64_t up_at_ms;
	unsigned silent_ticks;
	uint64_t asked_ns;    /* the first request of this turn */
	uint64_t heard_ns;    /* the last bytes */
	bool is_waiting_told; /* that Redis is loading */
	struct redis_hello hello;
	struct redis_holder holder;
	struct redis_request greeting; /* what is asked before the link is up */
	struct buf greeting_bytes;
	uv_buf_t greeting_part;
	uv_timer_t beat_timer;
	struct redis_request beat;
	uv_buf_t beat_part;
	struct redis_confirm confirm;
	struct redis_replay replay;
	bool is_record_new; /* no write was counted by the holder's record so far */
	bool has_gap;       /* this master lacks what the log has not */
	struct redis_trouble trouble;
	uv_buf_t count_part;
	char stale[ERROR_TEXT_MAX]; /* of STORE_STALE: what requests are answered */
	bool is_beat_out;           /* asked and not answered */
	/* Of who owns a cell: the records of the others, and what all of them share. */
	struct redis_request watch;
	struct buf watch_bytes;
	uv_buf_t watch_part;
	bool is_watch_out;
	bool is_standing_by; /* a start that waits as long as it takes */
	bool is_leaving;     /* the link is dropped as it should be */
	bool is_closing;
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

/* Everything begins in the loop, not in the call. */
struct redis_conn *redis_conn_create(uv_loop_t *loop,
				     const struct redis_conn_config *config,
				     const struct redis_conn_hooks *hooks);
/* The answers to before_connect: the URL of the config has the address. `tls` is borrowed
 * for the call; NULL: none. */
void redis_conn_connect(struct redis_conn *c, struct tls_context *tls);
/* There is nothing to connect to: `why` ends a start. `unfit` is a sentence without names
 * or addresses, for store_unfit, or NULL. */
void redis_conn_cannot_connect(struct redis_conn *c, const char *why, const char *unfit);
/* Another Redis is to be connected to: drop the link, if there is one. */
void redis_conn_leave(struct redis_conn *c, const char *why);
/* The record of its master is another one from now on; see redis_holder_set_key. */
void redis_conn_set_record(struct redis_conn *c, const char *key, const char *probe);
void redis_conn_move_record(struct redis_conn *from, struct redis_conn *to);
/* Take what was never sent or is unanswered; the connection is of no more use. */
void redis_conn_take_all(struct redis_conn *c, struct redis_requests *out);
/* Redis owes an answer and has said nothing for three beats. */
bool redis_conn_is_silent(const struct redis_conn *c);
/* The caller has filled in parts, part_count, replies and on_reply. */
void redis_conn_send(struct redis_conn *c, struct redis_request *r);
/* Wait at most `grace_ms` for the answers that are owed, give a NULL reply to
 * the requests that are left, free the connection, call on_closed. */
void redis_conn_close(struct redis_conn *c, int64_t grace_ms,
		      void (*on_closed)(void *ctx), void *ctx);

/* Of a connection that is being closed: its grace is over. */
void redis_conn_hurry(struct redis_conn *c);
