/* verdict.h: what was decided about a message, small enough to be kept and good
 * for comparing: which queues took it, in which shard, at which rank.
 *
 * Queues are named by their serial numbers, so that a verdict outlives them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

struct broker;
struct decision;

#define VERDICT_TARGETS 8 /* queues that are told apart; of more only the sum */

struct verdict_target {
	uint64_t queue; /* its serial number */
	double rank;
	uint32_t shard;
	/* The script decides by the message alone, or is not the active one: a
	 * difference means something. */
	bool is_shard_telling, is_rank_telling;
};

struct verdict {
	int status;     /* TIDE_OK, or why it was refused */
	uint32_t count; /* of queues, those that copies went to counted along */
	uint64_t sum;   /* of the queues' numbers, mixed */
	struct verdict_target targets[VERDICT_TARGETS];
};

static inline void verdict_init(struct verdict *v, int status)
{
	v->status = status;
	v->count = 0;
	v->sum = 0;
}

/* The place to fill for a queue; NULL when there are too many. */
static inline struct verdict_target *verdict_add(struct verdict *v, uint64_t queue)
{
	struct verdict_target *t =
		v->count < VERDICT_TARGETS ? &v->targets[v->count] : NULL;

	v->count++;
	v->sum += (queue * UINT64_C(0x9e3779b97f4a7c15)) ^ (queue << 17);
	if (t) {
		t->queue = queue;
		t->is_shard_telling = t->is_rank_telling = true;
	}
	return t;
}

/* Set the verdict of a decision.
 *
 * @param status  if it is not TIDE_OK, the decision is not read */
void verdict_set(struct verdict *v, const struct decision *d, int status);

/* In what they differ, as a set. */
enum verdict_difference {
	VERDICT_SAME = 0,
	VERDICT_ERROR = 1, /* one of them is refused, or for another reason */
	VERDICT_QUEUES = 2,
	VERDICT_SHARD = 4,
	VERDICT_RANK = 8,
	VERDICT_MESSAGE = 16, /* filters wrote other things into it, or its copies */
};
#define VERDICT_DIFFERENCES 5
/* All but VERDICT_MESSAGE, of which verdicts know nothing. */
unsigned verdict_compare(const struct verdict *a, const struct verdict *b);

/* The member `differs`: an array of the names in a set of differences. */
void verdict_write_difference(unsigned difference, struct json *out);
/* The member `queue`: the name; "(deleted)" when there is none of that number. */
void verdict_write_queue(uint64_t serial, const struct broker *b, struct json *out);
/* An object; `error` is the text that belongs to a refusal, or NULL. */
void verdict_write(const struct verdict *v, struct broker *b, const char *error,
		   struct json *out);
