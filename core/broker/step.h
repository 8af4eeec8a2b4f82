/* step.h: what happens to messages, told to those who follow: TRACE, EXPLAIN, candidate
 * rules in the shadow, the recent publishes.
 *
 * Each place that does something to a message makes a struct step and tells it. When
 * nobody follows that kind of step, this costs one test of a bit. A follower changes
 * nothing that the active rules decide by, except the `context` of a step that is still
 * to come. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rules/engine/script_kind.h"

struct auth_login;
struct connect_decision;
struct consumer;
struct decide_spec;
struct decision;
struct decision_context;
struct deliver_pass;
struct entry;
struct error;
struct fate;
struct fate_question;
struct filter_step;
struct msg;
struct policy_call;
struct queue;
struct record_delivery;
struct retry_decision;
struct route_visit;
struct settled_pass;
struct settled_step;
struct vhost;

/* Each kind names the members that it sets, beside those that most steps have. */
enum step_kind {
	/* To come: a follower may set `context`. */
	STEP_PUBLISH, /* a publish is decided: spec */
	STEP_FAIL,    /* a retry script is asked: failure */
	STEP_ASK, /* scripts of deliver/, settled/, declare/ or connect/ are asked: the
		   * member of the kind */
	/* The parts of a decision, which decide_spec.follower alone is told: `outcome` is
	 * the number of the message or copy. */
	STEP_FILTERED, /* filter */
	STEP_ROUTED,   /* an exchange was visited: visit */
	STEP_PICKED,   /* a script has chosen the shard or the rank in `queue` */
	STEP_UNRANKED, /* a priority script has failed: error */
	/* Done. `error` is NULL when it went well. */
	STEP_DECIDED,   /* spec, decision, random_state; error: the publish is refused */
	STEP_FAILED,    /* what the retry script said: failure, verdict; error */
	STEP_ANSWERED,  /* what scripts said: as STEP_ASK; error */
	STEP_DELIVERED, /* consumer, and entry, or place and record */
	STEP_ACKED,     /* entry, or place and count: told before it goes */
	STEP_RETURNED,  /* failed, expired or given back: fate, and entry or place */
	STEP_SETTLED,   /* a script of settled/ was told of it: settled_step */
	STEP_COPIED,    /* a copy is published as a dead letter: copy */
	STEP_CONFIRMED, /* the publisher is answered: confirm */
};

/* Where a message of a topic lies. */
struct record_place {
	const struct queue *topic;
	const char *group; /* NULL: a reader, which has none */
	unsigned partition;
	uint64_t offset;
};

/* The answer to a publish. */
struct step_confirm {
	int status;
	const char *text; /* why it is refused */
	uint64_t queues;
	bool is_duplicate;
};

struct step {
	enum step_kind kind;
	enum script_kind script; /* of STEP_ASK, STEP_ANSWERED, STEP_PICKED */
	unsigned outcome;
	uint64_t id; /* of the message; 0: by its place */
	const struct queue *queue;
	const struct error *error;
	struct decision_context *context; /* NULL: that of a live decision */
	union {
		struct {
			struct decide_spec *spec;
			const struct decision *decision;
			uint64_t random_state; /* of tide.random, before the decision */
		};
		struct {
			const struct fate_question *failure;
			const struct retry_decision *verdict;
		};
		struct {
			struct vhost *vhost; /* of the message */
			const struct deliver_pass *deliver;
			const struct settled_pass *settled;
		};
		const struct policy_call *policy;
		struct {
			const struct auth_login *client;
			const struct connect_decision *admission;
		};
		struct {
			const struct entry *entry;        /* NULL: a message of a topic */
			const struct record_place *place; /* the first of `count` */
			const struct consumer *consumer;
			union {
				uint64_t count;
				const struct record_delivery *record;
				const struct fate *fate;
			};
		};
		const struct filter_step *filter;
		const struct route_visit *visit;
		const struct settled_step *settled_step;
		const struct msg *copy;
		const struct step_confirm *confirm;
	};
};

#define STEP_BIT(kind) (1u << (kind))

/* Followers are told in this order. */
enum follower_role {
	FOLLOWER_RECENT,
	FOLLOWER_PROBATION,
	FOLLOWER_SHADOW,
	FOLLOWER_TRACE,
};

struct follower {
	void (*tell)(struct follower *f, struct step *s);
	unsigned steps; /* that it is told: bits by STEP_BIT */
	enum follower_role role;
	struct follower *next;
};

struct followers {
	struct follower *first; /* by their roles */
	unsigned steps;         /* of all */
};

/* Harmless when it follows already. */
void step_follow(struct followers *list, struct follower *f);
/* Harmless when it does not follow. */
void step_unfollow(struct followers *list, struct follower *f);

static inline bool step_is_followed(const struct followers *f, enum step_kind kind)
{
	return f->steps & STEP_BIT(kind);
}

void step_tell_all(const struct followers *list, struct step *s);

static inline void step_tell(const struct followers *list, struct step *s)
{
	struct follower *first = list->first;

	if (!step_is_followed(list, s->kind))
		return;
	/* The recent publishes alone, as a rule. */
	if (__builtin_expect(!first->next, 1))
		first->tell(first, s);
	else
		step_tell_all(list, s);
}

/* The same for a step from which nothing comes back: it is made only if it is followed.
 */
#define STEP_TELL(followers, step_kind, ...)                                           \
	do {                                                                           \
		if (__builtin_expect(step_is_followed((followers), (step_kind)), 0))   \
			step_tell((followers),                                         \
				  &(struct step){ .kind = (step_kind), __VA_ARGS__ }); \
	} while (0)
