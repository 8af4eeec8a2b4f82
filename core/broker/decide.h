/* decide.h: what a publish does, before it is done: the filters, the route, the
 * shards and the ranks.
 *
 * A decision is made from a vhost, a message and a ruleset, and changes nothing. All
 * that can fail does so here. Publishes, EXPLAIN, shadow, replay and `tidemq check`
 * decide by this function; publish.c carries the decision out. It is good until
 * anything is declared, deleted or bound. */
#pragma once

#include "access/subject.h"
#include "route.h"
#include "rules/api/decision_context.h"
#include "rules/engine/filter.h"

#define DECIDE_PICKS_INLINE 32 /* destinations for which nothing is allocated */

/* One queue that takes the message. */
struct pick {
	struct queue *queue;
	struct shard *shard; /* NULL: it is a topic */
	unsigned index;      /* of the shard, or of the topic's partition */
	double rank;         /* of a topic: 0 */
	const struct binding
		*binding;    /* that led there; NULL from the default exchange */
	bool is_shard_known; /* from the route: no script was asked */
	bool is_rank_known;
	bool is_unranked; /* its script failed */
};

/* The message as the filters left it, or a copy that one of them made. */
struct outcome {
	struct msg *msg;           /* a reference */
	struct exchange *exchange; /* NULL: the default exchange */
	unsigned number;           /* 0: the message; n: the n-th copy */
	unsigned hops;
	const char *sender; /* the filter that sent it to its exchange; NULL for none */
	int sender_line;
	struct pick *picks;
	unsigned count;
	/* For EXPLAIN. */
	uint64_t epoch; /* 0: it was not routed */
	bool is_pure;
	bool was_cached;
};

struct decision {
	struct outcome first;
	struct outcome *copies;
	unsigned copy_count; /* those that no filter refused */
	unsigned copies_made;
	struct pick picks[DECIDE_PICKS_INLINE]; /* of `first`, when they suffice */
};

/* An exchange that an outcome visits. */
struct route_visit {
	const struct exchange *exchange;
	const struct exchange *alternate_of; /* reached as its alternate; or NULL */
	const uint32_t *numbers; /* of its bindings that match, each once, in order */
	size_t count;
};

struct decide_spec {
	const struct ruleset *rules;
	struct decision_context *context; /* NULL: that of a live publish */
	struct vhost *vhost;
	struct subject *subject;   /* who publishes; NULL: the broker itself */
	uint64_t connection;       /* whose publish it is, for followers; 0: nobody's */
	struct exchange *exchange; /* NULL: that which the message names */
	struct msg *msg;
	int64_t now_ms;      /* delays that filters set count from here */
	bool is_canary;      /* the rules are those of broker.canary, and what they decide
				counts */
	bool is_fallen_back; /* they have failed with it */
	bool may_deal;       /* consumers may be served before a full queue refuses it */
	/* A client publishes, and its vhost may make a queue on demand by
	 * declare_on_demand. NULL: none is made. */
	int (*make_queue)(struct vhost *v, struct subject *subject, struct slice user,
			  struct slice name, struct queue **out, struct error *err);
	const uint64_t *expected; /* of a publish: each topic appends it at this offset,
				   * or none does. NULL: at any */
	/* The message, unless a filter sends it elsewhere, goes by these keys as well. A
	 * queue takes it once. */
	const struct slice *keys;
	unsigned key_count;
	/* Of this decision alone, else NULL. Of a decision that is remembered the
	 * exchanges are visited again, for this alone. */
	struct follower *follower;
};

/* Somebody follows the decision. */
static inline void decide_tell(const struct decide_spec *spec, struct step *s)
{
	spec->follower->tell(spec->follower, s);
}

/* The script of a kind has chosen the outcome's shard or rank in the queue. */
static inline void decide_tell_picked(const struct decide_spec *spec,
				      const struct outcome *o, const struct queue *q,
				      enum script_kind kind)
{
	if (__builtin_expect(spec->follower != NULL, 0))
		decide_tell(spec, &(struct step){ .kind = STEP_PICKED,
						  .script = kind,
						  .outcome = o->number,
						  .queue = q });
}

/* TIDE_EREJECTED when a filter refuses the message; TIDE_EDENIED when one sends it, or a
 * copy, where the subject may not; TIDE_ERULE when a script fails:
 * then an outcome has the picks that were made before. TIDE_ENOTFOUND: the exchange that
 * the message names. Call decide_deinit in every case. */
TIDE_MUST_USE int decide(struct decision *d, const struct decide_spec *spec,
			 struct error *err);
/* The two halves of a decision: the filters; then, unless they have failed, route,
 * shards and ranks. Between them the ids of copies may be changed. */
TIDE_MUST_USE int decide_filter(struct decision *d, const struct decide_spec *spec,
				struct error *err);
TIDE_MUST_USE int decide_route(struct decision *d, const struct decide_spec *spec,
			       struct error *err);
/* Without both: the queue alone is to take it, by its shard and rank. `spec` needs rules,
 * vhost and msg. */
TIDE_MUST_USE int decide_queue(struct decision *d, const struct decide_spec *spec,
			       struct queue *q, struct error *err);
void decide_deinit(struct decision *d);
/* The rank of the outcome in the queue and shard of the pick; when the script fails, that
 * of the newest message. */
void decide_rank(const struct decide_spec *spec, const struct outcome *o,
		 struct pick *pick);

/* The key by which queues remember the outcome; an empty id: they do not. */
static inline struct dedupe_key decide_dedupe_key(const struct outcome *o)
{
	return (struct dedupe_key){ msg_dedupe_id(o->msg), o->number };
}
