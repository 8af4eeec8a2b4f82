/* queue.h: a queue: its configuration, its shards and its consumers. A topic is one, too,
 * with partitions instead of shards: topic.h. */
#pragma once

#include "base/table.h"
#include "rate.h"
#include "consumer.h"
#include "exchange.h"
#include "figures/figure_rows.h"
#include "refusal.h"
#include "rules/engine/strategy.h"
#include "shard/dedupe.h"
#include "shard/shard.h"
#include "terms.h"
#include "vhost.h"

struct route;
struct topic;

#define COUNTER_MEMBER(counter, ...) uint64_t counter;
struct queue_counters {
	BOTH_COUNTERS(COUNTER_MEMBER)
	QUEUE_COUNTERS(COUNTER_MEMBER)
};
#undef COUNTER_MEMBER

/* Of a queue that has been used. */
struct queue_rates {
	struct rate in, out;
	struct trend ready, dead_lettered; /* of session/warnings.h */
	bool has_past; /* of session/past.h: it, or a group of it, may have rows */
};
enum queue_direction { QUEUE_IN, QUEUE_OUT, QUEUE_DIRECTIONS };

struct queue {
	UT_hash_handle hh;
	UT_hash_handle serial_hh;
	uint64_t serial; /* never used again */
	struct definition definition;
	struct vhost *vhost;
	char *name;
	size_t name_len;
	union {
		struct terms terms;
		struct {
			struct config config; /* what it does */
			struct config
				*own; /* what it was declared with; NULL: the same */
			char *policy; /* the policies that make the difference, or NULL */
		};
	};
	/* By kind; a topic has none for priorities. */
	struct strategy *strategies[RULESET_SLOTS][SCRIPT_RETRY + 1];
	struct topic *topic;   /* NULL: it is a queue proper. Else no shard is there. */
	struct shard **shards; /* those that have been used, in no order */
	unsigned shard_count;
	unsigned next_shard;     /* where the dealing goes on */
	struct shard **by_index; /* config_shards of them; NULL: never used */
	struct shard *transient; /* one more of `shards`; NULL: never used */
	bool is_mixed;           /* one of them is: see declare.c */
	struct strategy *next_strategies[SCRIPT_RETRY + 1];
	struct consumer_list consumers; /* all, in the order of their arrival */
	struct heap able;               /* of them: those who can take a message now */
	int64_t turns;                  /* that consumers have had */
	struct heap line;               /* of a single-active queue: consumer.c */
	struct consumer *active;        /* likewise; perhaps relieved, but not yet done */
	int64_t arrivals;               /* likewise: of subscriptions */
	struct consumer_list
		looked; /* GETs that found no match; has_news: they look again */
	bool has_news;
	struct refusal_list refusals; /* of all consumers, those made first first */
	bool is_offered;              /* scripts of deliver/ are asked: delivery.c */
	int64_t offer_logged_ms;      /* that one of them fails */
	int64_t settled_logged_ms;    /* that a script of settled/ fails */
	struct consumer_list readers; /* of GETs that wait for a read of it */
	bool has_yielded; /* to a more urgent queue of the GET that is first in line */
	unsigned consumer_count; /* subscriptions; GETs do not count */
	bool had_consumer;
	bool has_exclusive;       /* its one subscription is an exclusive one */
	struct queue_list *owner; /* of an exclusive queue: a list of such */
	TAILQ_ENTRY(queue) owner_link;
	struct binding_list incoming;
	TAILQ_ENTRY(queue) active_link;
	bool is_active;
	/* Of the decision that is being looked at: publish.c */
	uint64_t admitted, admitted_bytes;
	bool is_guarded;          /* it may refuse messages: counted in broker.guarded */
	bool is_told_full;        /* by EVENT_QUEUE_FULL */
	struct heap_node wake;    /* in broker.wakes */
	bool is_metered;          /* its deliveries may be held back: delivery.c */
	int64_t next_delivery_ns; /* with a rate; the clock that nobody sets */
	int64_t used_mono_ms;     /* with expires: when it was used last */
	/* Until when it is paused, wall clock; 0: it is not. See pause.h. */
	int64_t paused_ms[QUEUE_DIRECTIONS];
	uint64_t visit;              /* the last routing that came by */
	struct route *direct;        /* from the default exchange */
	struct publish_ids *ids;     /* that it has seen */
	struct dedupe_queue *dedupe; /* likewise; NULL of a topic */
	struct queue_counters counters;
	int64_t second;             /* of the broker, when something was counted last */
	struct queue_rates *rates;  /* NULL: nothing was counted yet */
	int64_t unranked_logged_ms; /* the log names it once in a while */
	int64_t copies_logged_ms;   /* likewise */
	bool has_tail;              /* a round of overflow.c is under way */
	int64_t tail_due_ms;        /* by mono_ms: none before; 0: at once */
};

struct queue_limit {
	uint64_t messages;
	uint64_t bytes; /* of payloads */
};

/* A queue or a topic. */
struct queue *queue_find(struct vhost *v, struct slice name);
/* NULL: it is gone. */
struct queue *queue_by_serial(const struct broker *b, uint64_t serial);

/* The name is free. */
TIDE_MUST_USE int queue_create(struct vhost *v, const struct terms_spec *spec,
			       struct terms *terms_take, struct queue **out,
			       struct error *err);
/* One that Redis has: it exists without its scripts, until queue_attach. Only spec->args
 * may be NULL: the definition cannot be read, for the reason in `err`. */
void queue_restore(struct vhost *v, const struct terms_spec *spec, struct error *err);
/* As definition_attach. */
TIDE_MUST_USE int queue_attach(struct queue *q, const struct ruleset *r,
			       struct error *err);
void queue_detach(struct queue *q, enum ruleset_slot slot);
/* Read the counts of its shards, what their ledgers say was held, and the publish ids; of
 * a topic where its partitions begin and end. The waiter is told. */
void queue_recover(struct queue *q, struct waiter *waiter);
/* Make the shard of that number, which is not there. NULL: a topic has none. */
struct shard *queue_make_shard(struct queue *q, unsigned index);
/* For declare.c: what a shard has of the queue's options; there may be more shards than
 * the `had` that there could be before; the strategy of a kind that has other options. */
void queue_set_up_shard(const struct queue *q, struct shard *sh);
void queue_widen(struct queue *q, unsigned had);
TIDE_MUST_USE int queue_create_strategy(struct queue *q, const struct config *c,
					enum script_kind kind, struct strategy **out,
					struct error *err);
/* Check that a queue with these options could use their scripts. */
TIDE_MUST_USE int queue_check_scripts(const struct engine *e, const struct config *c,
				      struct error *err);
/* Of all shards together; zeroes without order-by. */
struct order_stats queue_order_stats(const struct queue *q);
/* How many of its shards are mixed still. */
unsigned queue_count_mixed(struct queue *q);
/* The number of the shard of messages that are in memory alone (queue.transient). */
#define QUEUE_TRANSIENT QUEUE_SHARDS_MAX
/* The shard of that number, below config_shards; NULL for a topic. */
static inline struct shard *queue_shard(struct queue *q, unsigned index)
{
	struct shard *sh = q->by_index[index];

	return sh ? sh : queue_make_shard(q, index);
}
/* For a message that the publisher can do without after a restart: durable queues have a
 * shard in memory beside the others. Its messages are dealt with theirs, as if all were
 * of one shard. A queue with groups has each group in one shard, and ids are kept with
 * their messages: there it is a message like all others. */
struct shard *queue_shard_of(struct queue *q, const struct msg *m, unsigned index);
/* Free those that recovery has found empty. */
void queue_drop_unused(struct queue *q);
/* Forget what its shards have read, as if it had just been restored. */
void queue_renew_shards(struct queue *q);
/* Consumers hold nothing of it any more. */
void queue_release_held(struct queue *q);
/* Cancels its consumers and drops its messages and bindings. Nothing is
 * removed from Redis: that is the caller's business (queue_erase). */
void queue_destroy(struct queue *q);
/* Redis has its definition: its messages may be stored. */
void queue_be_defined(struct queue *q);
/* Remove the messages and the definition from Redis; before queue_destroy. `waiter` may
 * be NULL. */
void queue_erase(struct queue *q, struct waiter *waiter);
/* Definition and messages are kept in Redis. */
static inline bool queue_is_durable(const struct queue *q)
{
	return q->config.is_durable && !q->config.is_exclusive &&
	       q->vhost->broker->env.store;
}

/* Messages in a state, over all shards. */
uint64_t queue_count(const struct queue *q, enum entry_state state);

/* Is the queue auto-delete, and has its last consumer gone? The stop of the broker
 * does not count. */
bool queue_is_abandoned(const struct queue *q);

/* Somebody consumes from it, holds a message no longer, or declares it: it does not
 * expire for a while. */
void queue_use(struct queue *q);
/* Has the queue been unused for its `expires`? Otherwise it wants to be asked again. */
bool queue_is_expired(struct queue *q);

/* Call when the reasons to refuse messages, or to hold deliveries back, may have
 * changed. */
void queue_guard(struct queue *q);

/* Ready messages are being read from Redis. */
bool queue_is_refilling(const struct queue *q);

/* Have it deal out messages at the end of the turn. */
void queue_activate(struct queue *q);

/* The rank of the newest waiting message, for one whose own is not known: it goes behind
 * that one and overtakes nothing. */
double queue_newest_rank(const struct shard *sh);
void queue_view(const struct queue *q, const struct shard *sh, struct queue_view *out);

static inline struct slice queue_slice(const struct queue *q)
{
	return (struct slice){ q->name, q->name_len };
}

/* No message of it is given out for longer than its ack-timeout-max. */
static inline uint32_t queue_limit_lease(const struct queue *q, int64_t wanted_ms)
{
	int64_t max_ms = q->config.ack_timeout_max_ms;

	return (uint32_t)(wanted_ms < max_ms ? wanted_ms : max_ms);
}

/* For how long it gives messages out to who wants that; 0: says nothing. */
static inline uint32_t queue_lease(const struct queue *q, uint32_t wanted_ms)
{
	return wanted_ms ? queue_limit_lease(q, wanted_ms)
			 : (uint32_t)q->config.ack_timeout_ms;
}

/* Look at the queue then, or earlier; `mono_ms` is of the clock that nobody sets. */
void queue_wake_by(struct queue *q, int64_t mono_ms);
/* Look at all queues in the next turn: by other rules they may have something to do. */
void queue_wake_all(struct broker *b);

/* A second begins for the queue's rates. */
void queue_begin_second(struct queue *q) __attribute__((cold));
/* Before a publish or a delivery is counted. */
static inline void queue_rate(struct queue *q)
{
	if (q->second != q->vhost->broker->second)
		queue_begin_second(q);
}

/* How long it remembers publish ids; 0 = not at all. */
static inline int64_t queue_dedupe_ms(const struct queue *q)
{
	return q->config.dedupe_ms >= 0 ? q->config.dedupe_ms
					: q->vhost->broker->config.dedupe_window_ms;
}

/* Does the queue remember a publish id for as long as it has the message? */
static inline bool queue_keeps_ids(const struct queue *q)
{
	return queue_dedupe_ms(q) == PUBLISH_IDS_QUEUED_MS;
}

/* The one that it keeps with the message; empty: none. */
static inline struct slice queue_publish_id(const struct queue *q, const struct msg *m)
{
	return q->dedupe ? dedupe_id_of(q->dedupe, m->id) : (struct slice){ 0 };
}

static inline struct queue *entry_queue(const struct entry *e)
{
	return e->shard->owner;
}

static inline void queue_bury(struct entry *e)
{
	entry_queue(e)->counters.buries++;
	shard_bury(e);
}

static inline bool queue_limit_has(const struct queue *q)
{
	return q->config.max_length || q->config.max_bytes;
}

/* The messages that count for limits. The bytes are those of all only if max-bytes=
 * is given. */
struct queue_limit queue_limit_waiting(const struct queue *q);
/* Would the queue be over a limit with so much more? */
bool queue_limit_is_over(const struct queue *q, struct queue_limit more);
/* With so much more it is over a limit, without what Redis may still refuse: that must
 * not cost a message that is confirmed. */
bool queue_limit_has_excess(const struct queue *q, struct queue_limit more);
/* How many messages that are; 0 also when their bytes are limited. */
uint64_t queue_limit_excess(const struct queue *q);
/* How many have to go, at least. When bytes are limited: half of what their mean size
 * says, and one in any case. 0: there is no excess. */
uint64_t queue_limit_over(const struct queue *q);
/* TIDE_EFULL, with what there is and what is allowed. */
int queue_limit_refuse(const struct queue *q, struct queue_limit more, struct error *err);
