/* claim.h: what one group has done with one partition: which offsets are settled, which
 * are with a consumer, which come again.
 *
 * Below `committed` all is settled. From `reached` on nothing was given out yet. Between
 * them lie runs, without gaps. Deliveries that follow each other are one run,
 * however many they are, and so are their acks: a consumer that acknowledges ranges costs
 * a few runs. A run that is settled at the front moves `committed` on. Neighbouring
 * settled runs are one.
 *
 * A claim decides nothing and reads nothing; it knows no consumer: who holds a run is the
 * owner's business (run.lease, run_add). */
#pragma once

#include <bsd/sys/tree.h>

#include "base/heap.h"
#include "record.h"

/* Neighbouring offsets of a partition that are in the same state for a group: a
 * piece of a claim (claim.h). While a consumer has it, it is in the tree of its holder
 * too, by the tags of its deliveries. */
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
	/* The batch with its messages; NULL: it must be read again. The run has a
	 * reference. */
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

RB_HEAD(run_tree, run);
RB_HEAD(run_returned_tree, run);

struct claim {
	struct run_tree runs;
	struct run_returned_tree due_runs, later_runs; /* that have returned */
	uint64_t committed, reached;
	uint64_t held;       /* offsets that are with a consumer */
	uint64_t returned;   /* that are to be given out again */
	struct heap *timers; /* of the owner: runs by due_ms */
	struct run *spare;   /* memory of one that has gone */
};

void claim_init(struct claim *c, uint64_t committed, struct heap *timers);
/* Holders must have been told before: nothing is held. */
void claim_deinit(struct claim *c);
/* Everything is forgotten: it goes on from `offset`. As claim_deinit. */
void claim_reset(struct claim *c, uint64_t offset);

/* One delivery. */
struct claim_delivery {
	uint64_t offset;
	uint64_t tag;
	void *lease;
	int64_t now_ms;
	uint32_t lease_ms;
	struct record_batch *batch; /* a reference is taken; may be NULL */
};
/* The message at `reached`, or behind it (what lies between is settled: it is no longer
 * kept), is given out. Gives its run: a new one of one message, for the holder's tree; or
 * the last one, grown: then lease and batch are the same and tag and offset follow. */
struct run *claim_hold(struct claim *c, const struct claim_delivery *d);
/* Likewise, and it is settled at once: a consumer that acknowledges nothing has it. */
void claim_pass(struct claim *c, uint64_t offset);
/* The message at the front of a returned run is given out again; or one further in (what
 * lies before it in the run is settled: it is no longer kept). Gives its run, of one
 * message, for the holder's tree: `returned` itself; what is left of it is another run
 * from now on. */
struct run *claim_hold_again(struct claim *c, struct run *returned,
			     const struct claim_delivery *d);

/* Settling. The offsets [first, first + count) are of the run, one at least. Before the
 * call the run is taken out of its holder's tree (run_remove). on_cut is told of each
 * held run that is left of it, to be put in (run_add): `run` itself, changed, or a new
 * one. Runs beside it may be freed when they become one with others. */
typedef void (*claim_cut_fn)(void *ctx, struct run *left);

/* The offsets of a run that is held are settled. `committed` may move on. */
void claim_settle(struct claim *c, struct run *run, uint64_t first, uint64_t count,
		  claim_cut_fn on_cut, void *ctx);
/* How the delivery ended of what comes again. */
enum claim_end {
	CLAIM_UNSEEN, /* nobody has seen it */
	CLAIM_GIVEN_BACK,
	CLAIM_FAILED,
};
/* Likewise: they come again, not before due_ms (0: at once). Neighbouring runs that are
 * alike in all, and of the same batch, become one. Gives the run that has them now. */
struct claim_return {
	uint64_t first, count;
	int64_t due_ms;
	enum claim_end end;
};
struct run *claim_return(struct claim *c, struct run *run, const struct claim_return *how,
			 claim_cut_fn on_cut, void *ctx);
/* Likewise: they are still held, and have a run of their own, which is given and which
 * on_cut is not told of. */
struct run *claim_isolate(struct claim *c, struct run *run, uint64_t first,
			  uint64_t count, claim_cut_fn on_cut, void *ctx);
/* A message of a returned run is settled after all. */
void claim_settle_returned(struct claim *c, struct run *returned, uint64_t offset);
/* A returned run needs no second delivery: all its messages were given up, and are
 * settled. */
void claim_give_up(struct claim *c, struct run *returned);
/* Offsets below `start` are no longer kept: what has returned there is settled,
 * `reached` is at least `start`, and so is `committed` unless something is held
 * there. Gives how many offsets were never given out. */
uint64_t claim_skip(struct claim *c, uint64_t start);

/* The time of a returned run has come: it is to be given out at once. */
void claim_due(struct run *run);
/* The first in the order of offsets, or NULL. */
struct run *claim_first_due(const struct claim *c); /* returned, without a due_ms */
struct run *claim_first(const struct claim *c);     /* of any state */
struct run *claim_first_returned(const struct claim *c);
struct run *claim_first_held(const struct claim *c); /* looks at those before it */
struct run *claim_next(const struct run *run);       /* of any state */
/* The run that has the offset, or NULL. */
struct run *claim_find(const struct claim *c, uint64_t offset);
