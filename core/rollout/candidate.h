/* candidate.h: a generation of rules beside the one in force, which decides
 * without anything being done: for the shadow and for the replay.
 *
 * It has an engine of its own, loaded once from a directory, with the exchanges,
 * bindings and queues of the broker as they are; it follows them as they change.
 * What its scripts remember is its own too. Both the loading and the following go in
 * steps between the turns of the loop. */
#ifndef TIDE_ROLLOUT_CANDIDATE_H
#define TIDE_ROLLOUT_CANDIDATE_H

#include "rules/api/draft.h"
#include "rules/engine/moment.h"
#include "rules/engine/strategy.h"
#include "broker/broker.h"
#include "verdict.h"

struct candidate;

/* What it is for. */
enum candidate_purpose {
	CANDIDATE_SHADOW,
	CANDIDATE_REPLAY, /* the breaker is off: each decision is one of the script's */
};

/* It is loaded, or TIDE_ERULE: why a reload of this directory would be refused. */
typedef void candidate_loaded_fn(void *ctx, const struct error *result);

struct candidate_spec {
	enum candidate_purpose purpose;
	struct slice dir;
	candidate_loaded_fn *on_loaded;
	void *ctx;
};

/* `dir` is absolute, or relative to the folder that the rules directory is in;
 * TIDE_ENOTFOUND when there is none. on_loaded comes from the loop, not before this
 * returns and not after candidate_destroy, which it may call. */
TIDE_MUST_USE int candidate_create(struct candidate **out, struct broker *b,
				   const struct candidate_spec *spec, struct error *err);
/* Accepts NULL. At any time. */
void candidate_destroy(struct candidate *c);

/* For what was published at another time: what it decides, and its scripts see as
 * tide.now() and tide.random(), is of then. */
void candidate_set_moment(struct candidate *c, int64_t now_ms, uint64_t random_state);

/* Follow what the broker has by a step. False when there is more to do: then it cannot
 * decide yet. For one that is loaded. */
bool candidate_follow(struct candidate *c);

/* What would become of a message. */
struct candidate_decision {
	const struct moment *moment; /* in: when; NULL: now */
	size_t absent_bytes; /* in: of the payload, of which there is the size alone */
	struct verdict verdict;
	bool needs_payload; /* a script has asked for it: the rest means nothing */
	struct error err;   /* the text of a refusal, which is verdict.status */
	/* The message as filters left it, and the copies that they made; references. */
	struct msg *written[1 + DRAFT_COPIES_MAX];
	unsigned written_count;
};

/* After candidate_follow. candidate_decision_deinit comes after it. */
void candidate_decide(struct candidate *c, struct vhost *v, struct msg *m,
		      struct candidate_decision *d);
void candidate_decision_deinit(struct candidate_decision *d);

/* A message of a queue has failed. */
struct candidate_failure {
	struct queue *queue;
	const struct msg *msg;
	const struct failure_view *failure;
	const struct moment *moment;
};

/* Is the queue's retry script another one here than in force, or has it other modules?
 * If it is the same its decisions are too, but for what it remembers. After
 * candidate_follow. */
bool candidate_has_other_retry(struct candidate *c, const struct queue *q);
/* What it would do about the failure, on the counters and the like of the rules in
 * force, and without a trace. */
TIDE_MUST_USE int candidate_retry(struct candidate *c, const struct candidate_failure *f,
				  struct retry_decision *decision, struct error *err);

const char *candidate_dir(const struct candidate *c);
/* What is loaded. */
struct bundle *candidate_files(const struct candidate *c);
/* Are these the rules in force? */
bool candidate_is_in_force(const struct candidate *c);
/* Members of an object: the directory and the hash. */
void candidate_write(const struct candidate *c, struct json *out);

#endif
