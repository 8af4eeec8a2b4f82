/* run.h: neighbouring offsets of a partition that are in the same state for a group: a
 * piece of a claim (claim.h). While a consumer has it, it is in the tree of its holder
 * too, by the tags of its deliveries. */
#pragma once

#include <bsd/sys/tree.h>

#include "base/heap.h"
#include "record.h"

enum run_state {
	RUN_HELD,     /* with a consumer, since given_ms */
	RUN_RETURNED, /* to be given out again, not before due_ms */
	RUN_SETTLED,
};

struct claim;

struct run {
	RB_ENTRY(run) by_offset; /* in the claim */
	/* RUN_HELD: in the holder. RUN_RETURNED: the claim's, by offset. */
	RB_ENTRY(run) by_tag;
	struct claim *claim;
	uint64_t first, count; /* offsets */
	enum run_state state;
	void *lease;         /* RUN_HELD: whose it is; see claim_hold */
	uint64_t first_tag;  /* RUN_HELD: of the first offset; the others follow */
	int64_t given_ms;    /* RUN_HELD: when the last of it was given out */
	int64_t due_ms;      /* RUN_RETURNED: see there; 0: at once */
	uint32_t lease_ms;   /* RUN_HELD: how long the lease of each message is */
	uint32_t deliveries; /* before this one; of each of its messages */
	uint32_t failures;
	/* That has its messages; NULL: it must be read again. The run has a reference. */
	struct record_batch *batch;
	struct slice reason; /* what a consumer said of its messages; the run owns it */
	struct heap_node timer; /* in claim.timers when due_ms is not 0 */
};

/* The offset behind its last. */
static inline uint64_t run_end(const struct run *r)
{
	return r->first + r->count;
}

/* The held runs of a holder. Zeroed it is empty; see RB_EMPTY. */
RB_HEAD(run_tag_tree, run);

void run_add(struct run_tag_tree *t, struct run *r);
void run_remove(struct run_tag_tree *t, struct run *r);
/* The run has a copy of it. */
void run_set_reason(struct run *r, struct slice reason);
/* The run that has the tag, or the first behind it; NULL: none. From 0 it is the first;
 * from first_tag + count of a run it is the next. */
struct run *run_from_tag(const struct run_tag_tree *t, uint64_t tag);
