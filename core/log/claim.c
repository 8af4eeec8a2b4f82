#include "claim.h"

#include <assert.h>

#include "base/mem.h"

static int compare_tags(const struct run *a, const struct run *b)
{
	return (a->first_tag > b->first_tag) - (a->first_tag < b->first_tag);
}

RB_GENERATE_INTERNAL(run_tag_tree, run, by_tag, compare_tags,
		     static __attribute__((unused)))

void run_add(struct run_tag_tree *t, struct run *r)
{
	RB_INSERT(run_tag_tree, t, r);
}

void run_remove(struct run_tag_tree *t, struct run *r)
{
	RB_REMOVE(run_tag_tree, t, r);
}

void run_set_reason(struct run *r, struct slice reason)
{
	char *text = reason.len > 0 ? mem_alloc(reason.len) : NULL;

	if (text)
		memcpy(text, reason.data, reason.len);
	mem_free((char *)r->reason.data);
	r->reason = (struct slice){ text, reason.len };
}

struct run *run_from_tag(const struct run_tag_tree *t, uint64_t tag)
{
	struct run *r = RB_ROOT(t), *found = NULL;

	/* Runs have no tag in common: their ends are in the order of their beginnings. */
	while (r)
		if (tag < r->first_tag + r->count) {
			found = r;
			r = RB_LEFT(r, by_tag);
		} else {
			r = RB_RIGHT(r, by_tag);
		}
	return found;
}

static int compare_offsets(const struct run *a, const struct run *b)
{
	return (a->first > b->first) - (a->first < b->first);
}

/* A run that is not held is in no holder's tree: the second tree has the same links. */
RB_GENERATE_INTERNAL(run_tree, run, by_offset, compare_offsets,
		     static __attribute__((unused)))
RB_GENERATE_INTERNAL(run_returned_tree, run, by_tag, compare_offsets,
		     static __attribute__((unused)))

/* ---- runs */

static struct run_returned_tree *returned_tree(struct claim *c, const struct run *r)
{
	return r->due_ms ? &c->later_runs : &c->due_runs;
}

static void count_in(struct claim *c, struct run *r)
{
	if (r->state == RUN_HELD) {
		c->held += r->count;
	} else if (r->state == RUN_RETURNED) {
		c->returned += r->count;
		RB_INSERT(run_returned_tree, returned_tree(c, r), r);
	}
}

static void count_out(struct claim *c, struct run *r)
{
	if (r->state == RUN_HELD) {
		c->held -= r->count;
	} else if (r->state == RUN_RETURNED) {
		c->returned -= r->count;
		RB_REMOVE(run_returned_tree, returned_tree(c, r), r);
	}
}

static void set_due(struct run *r, int64_t due_ms)
{
	r->due_ms = due_ms;
	if (due_ms)
		heap_set(r->claim->timers, &r->timer, due_ms);
	else
		heap_remove(r->claim->timers, &r->timer);
}

static void set_batch(struct run *r, struct record_batch *batch)
{
	if (batch)
		record_batch_ref(batch);
	record_batch_unref(r->batch);
	r->batch = batch;
}

static struct run *take_memory(struct claim *c)
{
	struct run *r = c->spare ? c->spare : mem_alloc(sizeof(*r));

	c->spare = NULL;
	return r;
}

/* Into the claim, as `like` is but for what belongs to no two runs. */
static struct run *add(struct claim *c, const struct run *like)
{
	struct run *r = take_memory(c);

	*r = *like;
	r->claim = c;
	r->timer = (struct heap_node){ 0 };
	if (r->batch)
		record_batch_ref(r->batch);
	if (like->reason.len > 0) {
		r->reason = (struct slice){ 0 };
		run_set_reason(r, like->reason);
	}
	RB_INSERT(run_tree, &c->runs, r);
	count_in(c, r);
	set_due(r, r->due_ms);
	return r;
}

static void drop_reason(struct run *r)
{
	if (r->reason.len > 0)
		run_set_reason(r, (struct slice){ 0 });
}

static void drop(struct claim *c, struct run *r)
{
	count_out(c, r);
	set_due(r, 0);
	set_batch(r, NULL);
	drop_reason(r);
	RB_REMOVE(run_tree, &c->runs, r);
	if (c->spare || POOL_KEEPS_NOTHING)
		mem_free(r);
	else
		c->spare = r;
}

static void add_settled(struct claim *c, uint64_t first, uint64_t count)
{
	add(c, &(struct run){ .first = first, .count = count, .state = RUN_SETTLED });
}

/* Split off a run that begins at `at` and is given. */
static struct run *split(struct claim *c, struct run *r, uint64_t at)
{
	struct run rest = *r;
	uint64_t before = at - r->first;

	rest.first = at;
	rest.count -= before;
	rest.first_tag += before;
	count_out(c, r);
	r->count = before;
	count_in(c, r);
	return add(c, &rest);
}

struct run *claim_isolate(struct claim *c, struct run *r, uint64_t first, uint64_t count,
			  claim_cut_fn on_cut, void *ctx)
{
	assert(r->state == RUN_HELD && count > 0);
	assert(first >= r->first && count <= r->count &&
	       first - r->first <= r->count - count);
	if (first > r->first) {
		struct run *left = r;

		r = split(c, r, first);
		on_cut(ctx, left);
	}
	if (count < r->count)
		on_cut(ctx, split(c, r, first + count));
	return r;
}

/* ---- settling */

/* The first `count` offsets of the run, which are not all. */
static void settle_front(struct claim *c, struct run *r, uint64_t count)
{
	struct run *before = RB_PREV(run_tree, &c->runs, r);
	uint64_t first = r->first;

	/* The run stays where it is in the trees: no run is between the old first
	 * offset and the new one. */
	*(r->state == RUN_HELD ? &c->held : &c->returned) -= count;
	r->first += count;
	r->first_tag += count;
	r->count -= count;
	if (!before)
		c->committed += count;
	else if (before->state == RUN_SETTLED)
		before->count += count;
	else
		add_settled(c, first, count);
}

static void settle_all(struct claim *c, struct run *r)
{
	struct run *before = RB_PREV(run_tree, &c->runs, r);
	struct run *behind = RB_NEXT(run_tree, &c->runs, r);

	count_out(c, r);
	r->state = RUN_SETTLED;
	r->lease = NULL;
	set_due(r, 0);
	set_batch(r, NULL);
	drop_reason(r);
	if (behind && behind->state == RUN_SETTLED) {
		r->count += behind->count;
		drop(c, behind);
	}
	if (!before) {
		c->committed = run_end(r);
		drop(c, r);
	} else if (before->state == RUN_SETTLED) {
		before->count += r->count;
		drop(c, r);
	}
}

/* Settle the offsets between `reached` and the end. */
static void settle_new(struct claim *c, uint64_t end)
{
	struct run *last = RB_MAX(run_tree, &c->runs);

	if (end <= c->reached)
		return;
	if (!last)
		c->committed = end;
	else if (last->state == RUN_SETTLED)
		last->count += end - c->reached;
	else
		add_settled(c, c->reached, end - c->reached);
	c->reached = end;
}

void claim_settle(struct claim *c, struct run *run, uint64_t first, uint64_t count,
		  claim_cut_fn on_cut, void *ctx)
{
	if (first == run->first && count < run->count) {
		settle_front(c, run, count);
		on_cut(ctx, run);
		return;
	}
	settle_all(c, claim_isolate(c, run, first, count, on_cut, ctx));
}

void claim_give_up(struct claim *c, struct run *returned)
{
	assert(returned->state == RUN_RETURNED);
	settle_all(c, returned);
}

void claim_settle_returned(struct claim *c, struct run *r, uint64_t offset)
{
	assert(r->state == RUN_RETURNED && offset >= r->first && offset < run_end(r));
	if (offset > r->first)
		r = split(c, r, offset);
	if (r->count > 1)
		settle_front(c, r, 1);
	else
		settle_all(c, r);
}

uint64_t claim_skip(struct claim *c, uint64_t start)
{
	uint64_t never = start > c->reached ? start - c->reached : 0;
	struct run *r;

	while ((r = claim_first_returned(c)) != NULL && r->first < start)
		if (run_end(r) > start)
			settle_front(c, r, start - r->first);
		else
			settle_all(c, r);
	settle_new(c, start);
	return never;
}

/* ---- holding and returning */

static bool can_grow(const struct run *r, const struct claim_delivery *d)
{
	return r && r->state == RUN_HELD && r->lease == d->lease &&
	       r->batch == d->batch && r->lease_ms == d->lease_ms && r->deliveries == 0 &&
	       run_end(r) == d->offset && r->first_tag + r->count == d->tag;
}

struct run *claim_hold(struct claim *c, const struct claim_delivery *d)
{
	struct run *last = RB_MAX(run_tree, &c->runs);

	assert(d->offset >= c->reached);
	if (can_grow(last, d)) {
		last->count++;
		c->held++;
		last->given_ms = d->now_ms;
	} else {
		settle_new(c, d->offset);
		last = add(c, &(struct run){ .first = d->offset,
					     .count = 1,
					     .state = RUN_HELD,
					     .lease = d->lease,
					     .first_tag = d->tag,
					     .given_ms = d->now_ms,
					     .lease_ms = d->lease_ms,
					     .batch = d->batch });
	}
	c->reached = d->offset + 1;
	return last;
}

void claim_pass(struct claim *c, uint64_t offset)
{
	assert(offset >= c->reached);
	settle_new(c, offset + 1);
}

struct run *claim_hold_again(struct claim *c, struct run *r,
			     const struct claim_delivery *d)
{
	assert(r->state == RUN_RETURNED);
	assert(d->offset >= r->first && d->offset < run_end(r));
	if (d->offset > r->first)
		settle_front(c, r, d->offset - r->first);
	if (r->count > 1)
		split(c, r, d->offset + 1);
	count_out(c, r);
	r->state = RUN_HELD;
	count_in(c, r);
	r->lease = d->lease;
	r->first_tag = d->tag;
	r->given_ms = d->now_ms;
	r->lease_ms = d->lease_ms;
	set_batch(r, d->batch);
	set_due(r, 0);
	return r;
}

static bool is_alike(const struct run *a, const struct run *b)
{
	return b->state == RUN_RETURNED && a->due_ms == b->due_ms &&
	       a->deliveries == b->deliveries && a->failures == b->failures &&
	       a->batch == b->batch && slice_is_equal(a->reason, b->reason);
}

/* `b` is behind `a`, and goes. */
static void join(struct claim *c, struct run *a, struct run *b)
{
	uint64_t count = b->count;

	drop(c, b);
	a->count += count;
	c->returned += count;
}

struct run *claim_return(struct claim *c, struct run *run, const struct claim_return *how,
			 claim_cut_fn on_cut, void *ctx)
{
	struct run *r = claim_isolate(c, run, how->first, how->count, on_cut, ctx);
	struct run *before = RB_PREV(run_tree, &c->runs, r);
	struct run *behind = RB_NEXT(run_tree, &c->runs, r);

	count_out(c, r);
	r->state = RUN_RETURNED;
	r->lease = NULL;
	r->deliveries += how->end != CLAIM_UNSEEN;
	r->failures += how->end == CLAIM_FAILED;
	set_due(r, how->due_ms);
	count_in(c, r);
	if (behind && is_alike(r, behind))
		join(c, r, behind);
	if (before && is_alike(r, before)) {
		join(c, before, r);
		return before;
	}
	return r;
}

/* ---- the whole */

void claim_init(struct claim *c, uint64_t committed, struct heap *timers)
{
	*c = (struct claim){ .committed = committed,
			     .reached = committed,
			     .timers = timers };
}

void claim_deinit(struct claim *c)
{
	struct run *r;

	assert(c->held == 0);
	while ((r = RB_ROOT(&c->runs)) != NULL)
		drop(c, r);
	mem_free(c->spare);
	c->spare = NULL;
}

void claim_reset(struct claim *c, uint64_t offset)
{
	claim_deinit(c);
	claim_init(c, offset, c->timers);
}

struct run *claim_first(const struct claim *c)
{
	return RB_MIN(run_tree, (struct run_tree *)&c->runs);
}

void claim_due(struct run *run)
{
	assert(run->state == RUN_RETURNED);
	count_out(run->claim, run);
	set_due(run, 0);
	count_in(run->claim, run);
}

struct run *claim_first_due(const struct claim *c)
{
	return RB_MIN(run_returned_tree, (struct run_returned_tree *)&c->due_runs);
}

struct run *claim_first_returned(const struct claim *c)
{
	struct run *due = claim_first_due(c);
	struct run *later =
		RB_MIN(run_returned_tree, (struct run_returned_tree *)&c->later_runs);

	if (!due || !later)
		return due ? due : later;
	return due->first < later->first ? due : later;
}

struct run *claim_find(const struct claim *c, uint64_t offset)
{
	struct run *r = RB_ROOT(&c->runs);

	while (r && (offset < r->first || offset >= run_end(r)))
		r = offset < r->first ? RB_LEFT(r, by_offset) : RB_RIGHT(r, by_offset);
	return r;
}

struct run *claim_first_held(const struct claim *c)
{
	struct run *r = c->held > 0 ? claim_first(c) : NULL;

	while (r && r->state != RUN_HELD)
		r = claim_next(r);
	return r;
}

struct run *claim_next(const struct run *run)
{
	return RB_NEXT(run_tree, &run->claim->runs, (struct run *)run);
}
