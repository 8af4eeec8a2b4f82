/* strategy.h: a script in use by a queue: sharding, priority or retry. */
#pragma once

#include "engine.h"
#include "options.h"
#include "rules/api/draft.h"

struct strategy;

struct strategy_spec {
	enum script_kind kind;
	struct slice name;
	const struct args *options;
	const char *user;   /* for errors: "queue 'jobs'" */
	struct slice vhost; /* whose memory it is; may be empty */
};

/* TIDE_ENOTFOUND: no such script; the error names those that exist. TIDE_EMISMATCH: an
 * option is not declared, is missing, or has a value of another type. */
TIDE_MUST_USE int strategy_create(struct engine *e, const struct strategy_spec *spec,
				  struct strategy **out, struct error *err);
void strategy_destroy(struct strategy *s);
bool strategy_is_pure(const struct strategy *s);
const char *strategy_script(const struct strategy *s);
/* The error of the script's last failed call; "" for none. */
const char *strategy_last_error(const struct strategy *s);
/* The hash of the script's file. */
uint64_t strategy_hash(const struct strategy *s);

/* As options_differ, by what the script of that name declares. One that is not there
 * declares nothing. */
bool strategy_differs(const struct engine *e, enum script_kind kind, const char *script,
		      const struct args *has, const struct args *wanted,
		      struct option_difference *out);

/* Would strategy_create find the script and take the options? Calls no script. */
TIDE_MUST_USE int strategy_check(const struct engine *e, enum script_kind kind,
				 const char *script, const struct args *options,
				 struct error *err);

/* How a sharding script learns the load of a shard. It is called when a script asks.
 * Without it the load of every shard is 0. */
typedef uint64_t strategy_load_fn(const void *ctx, unsigned shard);
void strategy_set_load(struct strategy *s, strategy_load_fn *load, const void *ctx);

/* The script's `queue`. */
struct queue_view {
	struct slice vhost;
	struct slice name;
	double served;  /* the rank of the last message served; 0 before the first */
	uint64_t ready; /* messages waiting */
	unsigned
		shard; /* the message enters it; `served` and `ready` are of this shard */
};

/* The script's `failure`. */
struct failure_view {
	const char *reason;       /* "nack" "timeout" "gone" "expired" */
	struct slice reason_text; /* MSG_REASON_TEXT of the message; empty: none */
	unsigned attempts;        /* to work on it, with this one */
	unsigned deliveries;      /* more, if it came back without a failure */
	unsigned failures;        /* including this failure */
	bool has_place;           /* the message is in a topic, there */
	uint32_t partition;
	uint64_t offset;
};

enum retry_action { RETRY_AFTER, RETRY_BURY, RETRY_DEAD_LETTER, RETRY_DROP };
/* "retry", "bury", "dead-letter", "drop" */
extern const char *const strategy_action_names[];

/* The deeds of a retry script in addition to its answer. */
struct retry_extra {
	unsigned refs;
	struct msg *msg; /* the message with the headers that it wrote; NULL: none */
	/* Where it dead-letters the message to. NULL: to the queue's target, with the
	 * message's or the queue's key. "" is the default exchange. */
	char *exchange, *key;
	struct draft_copies copies; /* that it publishes; they have no ids yet */
};
static inline struct retry_extra *strategy_extra_ref(struct retry_extra *x)
{
	if (x)
		x->refs++;
	return x;
}
/* Accepts NULL. */
void strategy_extra_unref(struct retry_extra *x);
/* One that keeps its copies when those of `x` are published. Accepts NULL. */
struct retry_extra *strategy_extra_clone(const struct retry_extra *x);

/* Members of an object: "target", "copies", "wrote_headers". */
void strategy_write_extra(const struct retry_extra *x, struct json *out);
/* Do two say the same? Each may be NULL. */
bool strategy_is_same_extra(const struct retry_extra *a, const struct retry_extra *b);

struct retry_decision {
	enum retry_action action;
	int64_t delay_ms;          /* for RETRY_AFTER; 0 = ready again at once */
	struct retry_extra *extra; /* a reference; NULL: nothing */
};

/* 0 <= *shard < shards. */
TIDE_MUST_USE int strategy_pick(struct strategy *s, const struct script_question *q,
				unsigned shards, unsigned *shard, struct error *err);
/* A finite number. */
TIDE_MUST_USE int strategy_rank(struct strategy *s, const struct script_question *q,
				const struct queue_view *queue, double *rank,
				struct error *err);
/* Decide what to do about a failure. After success the decision's `extra` is the
 * caller's. */
TIDE_MUST_USE int strategy_decide(struct strategy *s, const struct script_question *q,
				  const struct failure_view *failure,
				  struct retry_decision *decision, struct error *err);
