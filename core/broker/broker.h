/* broker.h: the model: vhosts, exchanges, queues, and what they share.
 *
 * Everything hangs off one struct broker. It knows no client, no schedule and no rules
 * on trial: session/service.h composes those with it and drives its turns (turn.h). */
#pragma once

#include <uv.h>

#include "access/subject.h"
#include "base/heap.h"
#include "access/user.h"
#include "event.h"
#include "rate.h"
#include "base/msg.h"
#include "base/table.h"
#include "consumer.h"
#include "rules/engine/engine.h"
#include "id_lease.h"
#include "log/partition.h"
#include "shard/journal.h"
#include "pace.h"
#include "ruleset.h"
#include "shard/shard.h"
#include "shared_sync.h"
#include "turn_time.h"
#include "step.h"

struct canary;
struct dedupe;
struct definition;
struct policies;
struct queue;
struct retention;
struct route;
struct topic;
struct topic_hooks;
struct vhost;

struct broker_config {
	unsigned node;
	const char *rules_dir;
	const char *lua_dir;
	struct store_config store;
	size_t window_messages; /* of a shard, in memory */
	size_t window_bytes;
	size_t parked_messages;    /* of a shard with groups */
	size_t memory_max_bytes;   /* over it, publishers are held back; also of
				    * what is half received */
	size_t unstored_max_bytes; /* messages not yet durable: likewise */
	size_t tail_bytes;         /* of all topics, in memory */
	unsigned vhosts_max;
	unsigned locks_max;  /* held ones, of the broker */
	unsigned queues_max; /* of the broker, like the next two */
	unsigned exchanges_max;
	unsigned bindings_max;
	unsigned groups_max;    /* of a topic */
	int64_t slow_turn_ms;   /* a longer turn of the loop is logged; 0: none is */
	unsigned channels_max;  /* of a connection */
	unsigned consumers_max; /* subscriptions of a connection */
	unsigned replies_max;   /* requests of a connection that wait for an answer */
	size_t rules_memory_bytes;
	int64_t rules_budget_ms;
	int64_t rules_debounce_ms;
	bool rules_watch;
	size_t shared_entries_max; /* of tide.shared */
	size_t shared_bytes_max;
	bool has_rules_gate; /* rules become active only when their specs pass */
	int64_t rules_gate_timeout_ms;
	unsigned rules_rollback; /* 0, or: rules go after as many failed publishes */
	const char *program;     /* this one, to try rules in a process of its own; NULL:
				  * they are not tried */
	const char *rules_candidates; /* candidate rules lie below it; NULL: where the
				       * rules directory is */
	bool is_rules_dir_writable;   /* by RULES shadow promote install */
	const char *secrets_dir;      /* files that scripts may read; NULL: none */
	const struct args *rules_settings; /* behind tide.setting; NULL: none */
	bool is_model; /* of `tidemq check`: nobody logs in, and secrets are made up */
	int64_t dedupe_window_ms;          /* of queues that do not say otherwise */
	size_t dedupe_max_bytes;           /* of all publish ids that are remembered */
	unsigned transaction_messages_max; /* published and settled by one transaction */
	size_t transaction_bytes_max;      /* that one keeps until its end */
	size_t transactions_bytes_max;     /* that all of them keep */
	struct user_limits address_limits; /* of each address; 0: none */
	bool must_log_in;     /* others reach the broker: who has no login may do nothing,
			       * also while there are no users */
	bool replay_payloads; /* the recent publishes are kept with them */
};

void broker_config_init(struct broker_config *c);

struct broker_counters {
	uint64_t published;
	uint64_t routed; /* to queues: a message to two queues counts two */
	uint64_t unroutable;
	uint64_t duplicates; /* like routed, of what queues had already */
	uint64_t delivered;
	uint64_t acked;
	uint64_t failed; /* nacks, timeouts, ... */
	uint64_t paced;  /* returns that had to wait: redelivery.h */
	uint64_t dead_lettered;
	uint64_t death_limited; /* buried: they had died too often */
};

TAILQ_HEAD(group_watch_list, group_watch);

/* The state that the groups of all topics share. Times are those of the clock that nobody
 * sets. */
struct group_env {
	struct heap runs;              /* of claims: what comes again later */
	struct heap deaths;            /* dead letters that nobody took: group_settle.c */
	struct group_watch_list dirty; /* partitions with offsets to write */
	int64_t commit_due_ms;         /* when they are; good while there are some */
	unsigned commits;              /* under way */
	uint64_t death_count;
	/* When the log last said that Redis refuses them, or that nobody takes them. */
	int64_t commit_logged_ms, death_logged_ms;
};

/* No offset is to be written, or being written. */
static inline bool group_env_is_idle(const struct group_env *env)
{
	return TAILQ_EMPTY(&env->dirty) && env->commits == 0;
}

TAILQ_HEAD(queue_list, queue);
TAILQ_HEAD(route_list, route);
TAILQ_HEAD(vhost_list, vhost);
TAILQ_HEAD(exchange_list, exchange);
STAILQ_HEAD(move_list, move);
TAILQ_HEAD(job_list, job);
TAILQ_HEAD(removal_list, removal);
TAILQ_HEAD(topic_list, topic);
TAILQ_HEAD(walk_list, walk);

struct broker {
	uv_loop_t *loop;
	struct broker_config config;
	struct store *store;
	struct engine *engine; /* of the active rules */
	const unsigned
		*hook_counts; /* of these: how many scripts of each kind are asked */
	const unsigned *tried_counts; /* the same of the rules in the shadow */
	struct ruleset active_rules;
	struct ruleset *candidates[RULESET_SLOTS]; /* NULL where there is none */
	struct canary
		*canary; /* of the rules in the shadow; NULL: none of theirs counts */
	struct subject_env subjects; /* of sessions, and what they have begun */
	struct followers followers;  /* of decisions and messages */
	struct events events;        /* that wait to be published */
	struct dedupe *dedupe;       /* publish ids that have been seen */
	struct journal *journal;
	struct shared_sync shared_sync;
	struct shard_env env;
	struct partition_env partitions; /* of all topics */
	struct topic_list topics;        /* all, in the order of their making */
	struct retention *retention;
	struct policies *policies;
	struct match_scripts *match_scripts; /* NULL before the first */
	/* A queue can be used again. The policies that were asked are not those of now.
	 */
	void (*on_policies_missed)(struct definition *d);
	struct users users;
	struct pool id_appends; /* topic.h */
	const struct topic_hooks *topic_hooks;
	struct group_env groups;
	struct id_lease ids;           /* of messages: broker_next_id */
	struct vhost *vhosts;          /* uthash by name */
	struct vhost_list idle_vhosts; /* that may be empty */
	bool (*deal)(struct queue *q); /* delivery_turn, for a publish that makes room */
	struct queue_list active;      /* queues that may have something to deal out */
	struct credit_list credits;    /* of channels, with room for who wants it */
	struct heap timers;            /* of shards */
	struct heap lock_lapses;       /* of locks without their holder, by mono_ms */
	struct heap lock_waits;        /* of requests that wait for one, likewise */
	unsigned lock_count;           /* holds */
	LIST_HEAD(, lock) due_locks;   /* shared ones, for who waits: lock.c */
	struct heap waits;             /* of GETs that wait, by mono_ms */
	struct heap leases;            /* by mono_ms: lease.h */
	struct pool get_leases;        /* those of GETs */
	struct heap wakes;             /* of queues, by mono_ms: turn.c */
	unsigned guarded; /* queues that may refuse messages, and full lanes */
	/* Of the store: their Redis is away, and they have their share of what may wait.
	 * NULL with a count of 0: none is so. */
	bool *full_lanes;
	unsigned full_lane_count;
	struct pace pace; /* of what is being done just now */
	struct turn_time turn_time;
	struct msg_pool msgs; /* of the messages that are published */
	int64_t started_unix_ms;
	int64_t now_ms;  /* wall clock */
	int64_t mono_ms; /* the clock that nobody sets: for `waits` */
	/* By mono_ms: what clients had sent by then has been read. Silence is judged by
	 * this clock. When the process stood still (SIGSTOP, a paused machine), mono_ms
	 * is far ahead of it until the sockets have been read. */
	int64_t heard_ms;
	int64_t clock_ahead_ms; /* of the monotonic one, when it was looked at last */
	uint64_t last_serial;   /* of queues and exchanges */
	struct walk_list walks; /* over them: walk.h */
	struct queue *queues_by_serial; /* uthash */
	unsigned exchange_count;
	unsigned binding_count;
	uint64_t route_version;         /* changes with every binding and generation */
	uint64_t route_stamp;           /* marks what a routing has visited */
	struct route *route;            /* the last one that may not be remembered */
	struct exchange_list unbinding; /* that have bindings to take out of the index */
	struct route_list routes;       /* that exchanges remember, from the oldest on */
	size_t route_bytes;             /* of these */
	unsigned unusable;              /* queues and exchanges: unusable.h */
	struct move_list ending_moves;  /* of dead letters; move.c */
	bool is_ending_moves;
	struct removal_list removals; /* that Redis has refused; definition.c */
	struct removal *erasing;      /* uthash by name: those of queues and topics */
	int64_t removal_due_ms;
	struct job_list jobs; /* that go on in the next turns */
	bool is_started;
	bool is_draining;       /* no new work */
	bool refuses_publishes; /* DRAIN: what is there is served */
	bool is_closing;
	struct broker_counters counters;
	int64_t second; /* mono_ms in seconds: of the rates */
	struct rate in, out;
};

/* A model without rules and without a store, with the default vhost. */
struct broker *broker_create(uv_loop_t *loop, const struct broker_config *config);
/* Call after broker_clear, when the last reference to the model is gone. */
void broker_destroy(struct broker *b);
/* Drop all vhosts with all that is in them. Nothing is removed from Redis. */
void broker_clear(struct broker *b);

/* The rules; NULL: none, until others are set. They stay the caller's. */
void broker_set_engine(struct broker *b, struct engine *e);
/* Candidate rules; NULL: none any more. They stay the caller's. */
void broker_set_candidate(struct broker *b, enum ruleset_slot slot, struct ruleset *r);
/* Is a script of that kind active, or tried in the shadow? */
static inline bool broker_has_hook(const struct broker *b, enum script_kind kind)
{
	return __builtin_expect((b->hook_counts[kind] | b->tried_counts[kind]) > 0, 0);
}
/* The engine of the rules in the shadow; NULL: there are none. */
static inline struct engine *broker_tried_engine(const struct broker *b)
{
	const struct ruleset *r = b->candidates[RULESET_SHADOW];

	return r ? r->engine : NULL;
}

/* The store, opened. It stays the caller's. */
void broker_set_store(struct broker *b, struct store *store);

/* No new work: publishes and subscriptions are refused with TIDE_ESHUTDOWN. */
void broker_drain(struct broker *b);
/* Has the store answered all that was asked of it? */
bool broker_is_idle(const struct broker *b);

/* The id of a new message; 0: there is none, and id_lease_check says why. */
static inline uint64_t broker_next_id(struct broker *b)
{
	return id_next(&b->ids.source, b->now_ms);
}

/* Take the time, and begin a slice of the turn. */
void broker_begin(struct broker *b);
