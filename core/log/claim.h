/* claim.h: what one group has done with one partition: which offsets are settled, which
 * are with a consumer, which come again.
 *
 * Below `committed` all is settled. Above `reached` nothing was given out yet. Between
 * them lie runs: neighbouring offsets in one state. Deliveries that follow each other are
 * one run, however many they are, and so are their acks: a consumer that acknowledges
 * ranges costs a few runs. A run that is settled at the front moves `committed` on.
 *
 * A claim decides nothing and reads nothing; it knows no consumer: who holds a run is the
 * owner's business (run.holder, by_tag). */
#pragma once

#include <bsd/sys/tree.h>
#include <sys/queue.h>

#include "base/heap.h"
#include "record.h"

enum run_state {
	RUN_HELD,     /* with a consumer, until due_ms */
	RUN_RETURNED, /* to be given out again, not before due_ms */
	RUN_SETTLED,
};

struct claim;

struct run {
	RB_ENTRY(run) by_offset; /* in the claim */
	RB_ENTRY(run) by_tag;    /* in the holder, while it is held */
	struct claim *claim;
	uint64_t first, count; /* offsets */
	enum run_state state;
	void *holder;       /* RUN_HELD: see claim_hold */
	void *consumer;     /* RUN_HELD: likewise; may be NULL */
	uint64_t first_tag; /* RUN_HELD: of the first offset; the others follow */
	int64_t due_ms;     /* see enum run_state */
	uint32_t lease_ms;  /* RUN_HELD */
	uint32_t attempts;  /* deliveries before this one; of each of its messages */
	uint32_t failures;
	struct record_batch
		*batch; /* that has its messages; NULL: it must be read again */
	struct heap_node
		timer; /* RUN_HELD, RUN_RETURNED with a due_ms: in claim.timers */
};

RB_HEAD(run_tree, run);

struct claim {
	struct run_tree runs;
	uint64_t committed, reached;
	uint64_t held;       /* offsets that are with a consumer */
	uint64_t returned;   /* that are to be given out again */
	struct heap *timers; /* of the owner: runs by due_ms */
};

void claim_init(struct claim *c, uint64_t committed, struct heap *timers);
/* Holders must have been told before: claim_first_held is NULL. */
void claim_deinit(struct claim *c);
/* Everything is forgotten: it goes on from `offset`. As claim_deinit. */
void claim_reset(struct claim *c, uint64_t offset);

/* What a delivery is. */
struct claim_delivery {
	uint64_t offset;
	uint64_t tag;
	void *holder, *consumer;
	int64_t until_ms;
	uint32_t lease_ms;
	struct record_batch *batch; /* a reference is taken */
};
/* The message at `reached`, or behind it (what lies between is settled: it is no longer
 * kept), is given out. Gives its run: a new one, or the last one, grown: then holder,
 * consumer and batch are the same and tag and offset follow; it takes the later until_ms.
 */
struct run *claim_hold(struct claim *c, const struct claim_delivery *d);
/* The message at the front of a returned run is given out again. Gives its run, of one
 * message; attempts are one more. */
struct run *claim_hold_again(struct claim *c, struct run *returned,
			     const struct claim_delivery *d);

/* The offsets [first, first + count) of a run that is held are settled. It may be cut, or
 * freed; `committed` may move on. on_cut is told of each held run that it leaves behind,
 * which is a new one if it is not `run`: the holder's tree must know it.
 * All settling takes runs out of the holder's tree before and puts in what on_cut says.
 */
typedef void (*claim_cut_fn)(void *ctx, struct run *left);
void claim_settle(struct claim *c, struct run *run, uint64_t first, uint64_t count,
		  claim_cut_fn on_cut, void *ctx);
/* Likewise: they come again, not before due_ms (0: at once); with is_failure they have
 * failed once more. Settled and neighbouring runs of the same kind become one. Gives the
 * run that has them now. */
struct run *claim_return(struct claim *c, struct run *run, uint64_t first, uint64_t count,
			 int64_t due_ms, bool is_failure, claim_cut_fn on_cut, void *ctx);
/* A returned run needs no second delivery: its message was given up. */
void claim_give_up(struct claim *c, struct run *returned);
/* Nothing below the offset is kept any more: returned runs there are settled, `reached`
 * and `committed` are at least it, unless somebody holds something there. Gives how many
 * offsets were never given out. */
uint64_t claim_skip(struct claim *c, uint64_t start);

/* The first in the order of offsets, or NULL. */
struct run *claim_first_returned(const struct claim *c);
struct run *claim_first_held(const struct claim *c);
struct run *claim_next(const struct claim *c, const struct run *run); /* of any state */

/* The runs that a holder has, by tag. */
int run_compare_tags(const struct run *a, const struct run *b);
RB_HEAD(run_tag_tree, run);
RB_PROTOTYPE(run_tag_tree, run, by_tag, run_compare_tags)
/* The run that has the tag, or the first behind it; NULL: none. */
struct run *run_from_tag(struct run_tag_tree *t, uint64_t tag);
