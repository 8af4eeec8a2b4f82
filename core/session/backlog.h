/* backlog.h: what all queues of the broker have together.
 *
 * Nobody counts that as messages come and go: it is summed up, a slice at a time, and
 * what was summed up last is what there is. */
#pragma once

#include "list_walk.h"

struct broker;

struct backlog_sum {
	uint64_t ready, delayed, unacked, buried;
	int64_t since_ms; /* of the oldest ready message, wall clock; 0: there is none */
};

struct backlog {
	struct broker *broker;
	struct list_walk walk;
	bool is_walking;
	struct backlog_sum sum; /* of the last round that has ended */
	struct backlog_sum next;
	int64_t ended_ms; /* when that was, by the clock that nobody sets; 0: never */
	uint64_t spent_us, cost_us; /* of this round, and of the last one */
};

void backlog_init(struct backlog *l, struct broker *b);
void backlog_deinit(struct backlog *l);
/* Go on with a round, or begin one, for about so long. True: it has ended. */
bool backlog_go_on(struct backlog *l, uint64_t us);
