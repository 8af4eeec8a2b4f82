#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/mem.h"
#include "log/claim.h"

static struct claim claim;
static struct heap timers;
static struct run_tag_tree tags; /* of the one holder of the sessions */
static struct record_batch batches[4];

static int setup(void **state)
{
	for (unsigned i = 0; i < COUNT(batches); i++)
		batches[i].refs = 1;
	RB_INIT(&tags);
	claim_init(&claim, 10, &timers);
	return 0;
}

static void on_cut(void *ctx, struct run *left)
{
	run_add(ctx, left);
}

static void settle(uint64_t tag, uint64_t count)
{
	struct run *r = run_from_tag(&tags, tag);

	run_remove(&tags, r);
	claim_settle(&claim, r, r->first + (tag - r->first_tag), count, on_cut, &tags);
}

static struct run *give_back(uint64_t tag, uint64_t count, int64_t due_ms,
			     bool is_failure)
{
	struct run *r = run_from_tag(&tags, tag);

	run_remove(&tags, r);
	return claim_return(
		&claim, r,
		&(struct claim_return){ r->first + (tag - r->first_tag), count, due_ms,
					is_failure ? CLAIM_FAILED : CLAIM_GIVEN_BACK },
		on_cut, &tags);
}

static int teardown(void **state)
{
	struct run *r;

	while ((r = run_from_tag(&tags, 0)) != NULL)
		settle(r->first_tag, r->count);
	claim_deinit(&claim);
	assert_int_equal(timers.count, 0);
	heap_deinit(&timers);
	for (unsigned i = 0; i < COUNT(batches); i++)
		assert_int_equal(batches[i].refs, 1);
	return 0;
}

/* Offset 10 has tag 100 and so on. */
static struct claim_delivery delivery(uint64_t offset)
{
	return (struct claim_delivery){ .offset = offset,
					.tag = offset + 90,
					.lease = &tags,
					.now_ms = 5000,
					.lease_ms = 30000,
					.batch = &batches[0] };
}

static void hold(uint64_t first, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		struct claim_delivery d = delivery(first + i);
		struct run *r = claim_hold(&claim, &d);

		if (r->count == 1)
			run_add(&tags, r);
	}
}

/* The runs as text: "10-12 held, 13-13 settled". */
static const char *runs(void)
{
	static const char *const names[] = { "held", "returned", "settled" };
	static char text[1000];
	struct run *r = claim_first(&claim);
	size_t len = 0;

	text[0] = '\0';
	for (; r; r = claim_next(r))
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d-%d %s",
					len ? ", " : "", (int)r->first,
					(int)run_end(r) - 1, names[r->state]);
	return text;
}

TEST_THAT(deliveries_that_follow_are_one_run)
{
	hold(10, 1000);
	assert_string_equal(runs(), "10-1009 held");
	assert_int_equal(claim.held, 1000);
	assert_int_equal(claim.reached, 1010);
	assert_int_equal(claim.committed, 10);
	assert_int_equal(timers.count, 0);
	assert_int_equal(batches[0].refs, 2);
}

TEST_THAT(another_lease_batch_length_or_tag_begins_a_run)
{
	struct claim_delivery d;

	hold(10, 1);
	d = delivery(11);
	d.lease = &claim;
	run_add(&tags, claim_hold(&claim, &d));
	d = delivery(12);
	run_add(&tags, claim_hold(&claim, &d));
	d = delivery(13);
	d.batch = &batches[1];
	run_add(&tags, claim_hold(&claim, &d));
	d = delivery(14);
	d.batch = &batches[1];
	d.lease_ms = 7;
	run_add(&tags, claim_hold(&claim, &d));
	d = delivery(15);
	d.tag++;
	run_add(&tags, claim_hold(&claim, &d));
	assert_string_equal(runs(), "10-10 held, 11-11 held, 12-12 held, 13-13 held, "
				    "14-14 held, 15-15 held");
}

TEST_THAT(a_run_that_grows_knows_its_last_delivery)
{
	struct claim_delivery d = delivery(10);

	run_add(&tags, claim_hold(&claim, &d));
	d = delivery(11);
	d.now_ms = 6000;
	assert_int_equal(claim_hold(&claim, &d)->given_ms, 6000);
	assert_int_equal(timers.count, 0);
}

TEST_THAT(acks_in_order_move_committed)
{
	hold(10, 10);
	settle(100, 1);
	assert_int_equal(claim.committed, 11);
	settle(101, 4);
	assert_int_equal(claim.committed, 15);
	assert_string_equal(runs(), "15-19 held");
	settle(105, 5);
	assert_int_equal(claim.committed, 20);
	assert_string_equal(runs(), "");
	assert_int_equal(claim.held, 0);
	assert_int_equal(timers.count, 0);
}

TEST_THAT(acks_in_any_order_become_one)
{
	hold(10, 10);
	settle(103, 1);
	assert_string_equal(runs(), "10-12 held, 13-13 settled, 14-19 held");
	settle(109, 1);
	settle(105, 1);
	settle(104, 1);
	assert_string_equal(runs(),
			    "10-12 held, 13-15 settled, 16-18 held, 19-19 settled");
	settle(106, 3);
	assert_string_equal(runs(), "10-12 held, 13-19 settled");
	settle(101, 1);
	assert_string_equal(runs(),
			    "10-10 held, 11-11 settled, 12-12 held, 13-19 settled");
	settle(102, 1);
	assert_int_equal(claim.committed, 10);
	settle(100, 1);
	assert_int_equal(claim.committed, 20);
	assert_string_equal(runs(), "");
}

TEST_THAT(what_returned_is_given_out_again_one_by_one)
{
	struct claim_delivery d = delivery(10);
	struct run *r;

	hold(10, 5);
	r = give_back(100, 3, 0, true);
	assert_ptr_equal(claim_first_returned(&claim), r);
	assert_string_equal(runs(), "10-12 returned, 13-14 held");
	assert_int_equal(claim.returned, 3);
	d.tag = 200;
	d.batch = &batches[2];
	r = claim_hold_again(&claim, r, &d);
	run_add(&tags, r);
	assert_int_equal(r->first, 10);
	assert_int_equal(r->count, 1);
	assert_int_equal(r->deliveries, 1);
	assert_int_equal(r->failures, 1);
	assert_int_equal(r->due_ms, 0);
	assert_ptr_equal(r->batch, &batches[2]);
	assert_string_equal(runs(), "10-10 held, 11-12 returned, 13-14 held");
	assert_ptr_equal(claim_first_held(&claim), r);
	assert_int_equal(claim_first_returned(&claim)->first, 11);
	assert_int_equal(claim_first_returned(&claim)->deliveries, 1);
	/* The message behind it is no longer there. */
	d = delivery(12);
	d.tag = 201;
	run_add(&tags, claim_hold_again(&claim, claim_first_returned(&claim), &d));
	assert_string_equal(runs(), "10-10 held, 11-11 settled, 12-12 held, 13-14 held");
	assert_int_equal(claim.returned, 0);
	assert_null(claim_first_returned(&claim));
}

TEST_THAT(what_returns_alike_becomes_one)
{
	hold(10, 9);
	give_back(100, 1, 700, false);
	give_back(102, 1, 700, false);
	assert_string_equal(runs(),
			    "10-10 returned, 11-11 held, 12-12 returned, 13-18 held");
	give_back(101, 1, 700, false);
	assert_string_equal(runs(), "10-12 returned, 13-18 held");
	give_back(103, 1, 800, false);
	give_back(104, 1, 800, true);
	assert_string_equal(runs(),
			    "10-12 returned, 13-13 returned, 14-14 returned, 15-18 held");
	assert_int_equal(timers.count, 3);
	assert_int_equal(heap_min(&timers)->key, 700);
	assert_ptr_equal(container_of(heap_min(&timers), struct run, timer),
			 claim_first_returned(&claim));
}

TEST_THAT(what_a_consumer_said_goes_with_each_part)
{
	struct claim_delivery d = delivery(11);
	struct run *r;

	hold(10, 6);
	r = run_from_tag(&tags, 100);
	run_remove(&tags, r);
	r = claim_isolate(&claim, r, 11, 3, on_cut, &tags);
	run_set_reason(r, SLICE("not mine"));
	run_add(&tags, r);
	give_back(101, 3, 0, false);
	/* Others are no part of it, whatever else they have in common. */
	give_back(100, 1, 0, false);
	give_back(104, 1, 0, false);
	for (uint64_t offset = 10; offset < 15; offset++) {
		bool has_reason = offset >= 11 && offset < 14;

		r = claim_find(&claim, offset);
		assert_true(slice_is(r->reason, has_reason ? "not mine" : ""));
	}
	r = claim_hold_again(&claim, claim_find(&claim, 11), &d);
	run_add(&tags, r);
	assert_true(slice_is(r->reason, "not mine"));
	assert_true(slice_is(claim_find(&claim, 12)->reason, "not mine"));
	settle(101, 1);
	assert_int_equal(claim_find(&claim, 11)->reason.len, 0);
}

TEST_THAT(what_is_due_is_known_apart_from_what_comes_later)
{
	struct run *later;

	hold(10, 6);
	assert_null(claim_first_due(&claim));
	later = give_back(101, 2, 7000, true); /* offsets 11 and 12 */
	assert_null(claim_first_due(&claim));
	assert_ptr_equal(claim_first_returned(&claim), later);
	give_back(104, 1, 0, true);
	assert_int_equal(claim_first_due(&claim)->first, 14);
	assert_ptr_equal(claim_first_returned(&claim), later);
	claim_due(later);
	assert_ptr_equal(claim_first_due(&claim), later);
	assert_false(heap_has(&later->timer));
	assert_int_equal(claim.returned, 3);
}

TEST_THAT(a_run_is_found_by_an_offset)
{
	hold(10, 6);
	give_back(102, 2, 0, false); /* offsets 12 and 13 */
	settle(105, 1);
	assert_null(claim_find(&claim, 9));
	assert_int_equal(claim_find(&claim, 11)->first, 10);
	assert_int_equal(claim_find(&claim, 12)->state, RUN_RETURNED);
	assert_int_equal(claim_find(&claim, 13)->first, 12);
	assert_int_equal(claim_find(&claim, 14)->state, RUN_HELD);
	assert_int_equal(claim_find(&claim, 15)->state, RUN_SETTLED);
	assert_null(claim_find(&claim, 16));
}

TEST_THAT(giving_up_settles)
{
	hold(10, 4);
	claim_give_up(&claim, give_back(101, 2, 700, true));
	assert_string_equal(runs(), "10-10 held, 11-12 settled, 13-13 held");
	assert_int_equal(claim.returned, 0);
	claim_give_up(&claim, give_back(100, 1, 0, true));
	assert_int_equal(claim.committed, 13);
}

TEST_THAT(what_is_passed_moves_committed_unless_somebody_holds)
{
	claim_pass(&claim, 10);
	claim_pass(&claim, 13);
	assert_int_equal(claim.committed, 14);
	hold(14, 1);
	claim_pass(&claim, 15);
	claim_pass(&claim, 16);
	assert_int_equal(claim.committed, 14);
	assert_int_equal(claim.reached, 17);
	assert_string_equal(runs(), "14-14 held, 15-16 settled");
	settle(104, 1);
	assert_int_equal(claim.committed, 17);
}

TEST_THAT(what_is_no_longer_kept_is_settled)
{
	struct claim_delivery d = delivery(14);

	assert_int_equal(claim_skip(&claim, 12), 2);
	assert_int_equal(claim.committed, 12);
	assert_int_equal(claim_skip(&claim, 12), 0);
	assert_int_equal(claim_skip(&claim, 3), 0);
	assert_int_equal(claim.committed, 12);
	/* 12 and 13 were not kept: the delivery skips them. */
	run_add(&tags, claim_hold(&claim, &d));
	assert_int_equal(claim.committed, 14);
	hold(15, 9);
	give_back(109, 5, 700, false);
	give_back(104, 2, 0, false);
	assert_string_equal(runs(), "14-15 returned, 16-18 held, 19-23 returned");
	assert_int_equal(claim_skip(&claim, 21), 0);
	assert_string_equal(runs(), "16-18 held, 19-20 settled, 21-23 returned");
	assert_int_equal(claim.committed, 16);
	assert_int_equal(claim.returned, 3);
	assert_int_equal(claim_skip(&claim, 30), 6);
	assert_string_equal(runs(), "16-18 held, 19-29 settled");
	assert_int_equal(claim.reached, 30);
	settle(106, 3);
	assert_int_equal(claim.committed, 30);
}

TEST_THAT(a_part_becomes_a_run_of_its_own)
{
	struct run *r;

	hold(10, 5);
	r = run_from_tag(&tags, 102);
	run_remove(&tags, r);
	r = claim_isolate(&claim, r, 12, 2, on_cut, &tags);
	run_add(&tags, r);
	assert_string_equal(runs(), "10-11 held, 12-13 held, 14-14 held");
	assert_ptr_equal(run_from_tag(&tags, 103), r);
	assert_int_equal(run_from_tag(&tags, 104)->first_tag, 104);
	assert_null(run_from_tag(&tags, 105));
}

TEST_THAT(one_that_has_returned_is_settled_after_all)
{
	hold(10, 5);
	give_back(100, 5, 0, false);
	claim_settle_returned(&claim, claim_find(&claim, 12), 12);
	assert_string_equal(runs(), "10-11 returned, 12-12 settled, 13-14 returned");
	claim_settle_returned(&claim, claim_find(&claim, 10), 10);
	assert_string_equal(runs(), "11-11 returned, 12-12 settled, 13-14 returned");
	assert_int_equal(claim.committed, 11);
	claim_settle_returned(&claim, claim_find(&claim, 11), 11);
	assert_int_equal(claim.committed, 13);
	assert_int_equal(claim.returned, 2);
}

TEST_THAT(after_a_reset_it_goes_on_elsewhere)
{
	hold(10, 5);
	give_back(100, 2, 700, false);
	give_back(102, 3, 0, false);
	assert_null(claim_first_held(&claim));
	claim_reset(&claim, 3);
	assert_string_equal(runs(), "");
	assert_int_equal(claim.committed, 3);
	assert_int_equal(claim.reached, 3);
	assert_int_equal(claim.returned, 0);
	assert_int_equal(timers.count, 0);
	hold(3, 1);
	assert_string_equal(runs(), "3-3 held");
}

/* ---- against a model ------------------------------------------------------------------
 */

#define OFFSETS 400
#define HOLDERS 3

struct fact {
	enum { NEW, HELD, RETURNED, SETTLED } state;
	unsigned holder;
	uint64_t tag;
	int64_t due_ms;
	uint32_t deliveries, failures;
	const struct record_batch *batch;
};

static struct fact model[OFFSETS + 40];
static struct run_tag_tree holders[HOLDERS];
static uint64_t next_tags[HOLDERS];

static void check_run(const struct run *r)
{
	assert_true(r->count > 0 && r->claim == &claim);
	for (uint64_t i = 0; i < r->count; i++) {
		const struct fact *f = &model[r->first + i];

		assert_int_equal(r->state, f->state - HELD);
		if (f->state == SETTLED)
			continue;
		assert_int_equal(r->due_ms, f->due_ms);
		assert_int_equal(r->deliveries, f->deliveries);
		assert_int_equal(r->failures, f->failures);
		assert_ptr_equal(r->batch, f->batch);
		if (f->state != HELD)
			continue;
		assert_int_equal(r->first_tag + i, f->tag);
		assert_ptr_equal(r->lease, &holders[f->holder]);
		assert_ptr_equal(run_from_tag(r->lease, f->tag), r);
	}
	assert_int_equal(heap_has(&r->timer), r->due_ms != 0);
	if (heap_has(&r->timer))
		assert_int_equal(r->timer.key, r->due_ms);
}

static uint64_t count_state(unsigned from, unsigned to, int state)
{
	uint64_t count = 0;

	for (unsigned i = from; i < to; i++)
		count += (int)model[i].state == state;
	return count;
}

static void check_all(void)
{
	const struct run *r = claim_first(&claim), *first_held = NULL,
			 *first_returned = NULL, *first_due = NULL;
	uint64_t at = 0, with_timers = 0, refs = 0;
	unsigned reached = OFFSETS + 40;

	while (at < COUNT(model) && model[at].state == SETTLED)
		at++;
	while (reached > 0 && model[reached - 1].state == NEW)
		reached--;
	assert_int_equal(claim.committed, at);
	assert_int_equal(claim.reached, reached);
	assert_int_equal(claim.held, count_state(0, reached, HELD));
	assert_int_equal(claim.returned, count_state(0, reached, RETURNED));
	for (; r; r = claim_next(r)) {
		const struct run *behind = claim_next(r);

		assert_int_equal(r->first, at);
		check_run(r);
		at += r->count;
		with_timers += r->due_ms != 0;
		refs += r->batch != NULL;
		assert_false(behind && r->state == RUN_SETTLED &&
			     behind->state == RUN_SETTLED);
		if (r->state == RUN_HELD && !first_held)
			first_held = r;
		if (r->state == RUN_RETURNED && !first_returned)
			first_returned = r;
		if (r->state == RUN_RETURNED && !r->due_ms && !first_due)
			first_due = r;
		assert_ptr_equal(claim_find(&claim, r->first + r->count / 2), r);
	}
	assert_int_equal(at, reached);
	assert_int_equal(timers.count, with_timers);
	assert_ptr_equal(claim_first_held(&claim), first_held);
	assert_ptr_equal(claim_first_returned(&claim), first_returned);
	assert_ptr_equal(claim_first_due(&claim), first_due);
	for (unsigned i = 0; i < COUNT(batches); i++)
		refs -= batches[i].refs - 1;
	assert_int_equal(refs, 0);
}

/* A delivery; the model is told. */
static struct claim_delivery make_delivery(uint64_t offset)
{
	unsigned holder = (unsigned)rand() / 7 % (rand() % 8 ? 1 : HOLDERS);
	struct claim_delivery d = {
		.offset = offset,
		.tag = next_tags[holder]++,
		.lease = &holders[holder],
		.lease_ms = rand() % 16 ? 30000 : 20000,
		.batch = offset / 8 % 5 ? &batches[offset / 8 % 4] : NULL,
	};
	struct fact *f = &model[offset];

	*f = (struct fact){ .state = HELD,
			    .holder = holder,
			    .tag = d.tag,
			    .deliveries = f->deliveries,
			    .failures = f->failures,
			    .batch = d.batch };
	return d;
}

static void step_hold(void)
{
	uint64_t offset = claim.reached + (rand() % 10 ? 0 : (uint64_t)rand() % 3);
	struct claim_delivery d;
	struct run *r;

	if (offset >= OFFSETS)
		return;
	for (uint64_t i = claim.reached; i < offset; i++)
		model[i].state = SETTLED;
	if (rand() % 20 == 0) {
		model[offset].state = SETTLED;
		claim_pass(&claim, offset);
		return;
	}
	if (rand() % 16 == 0)
		next_tags[0]++;
	d = make_delivery(offset);
	r = claim_hold(&claim, &d);
	if (r->count == 1)
		run_add(d.lease, r);
}

static void step_hold_again(void)
{
	struct run *r = claim_first_returned(&claim);
	struct claim_delivery d;
	uint64_t offset;

	for (int i = rand() % 3; r && i > 0; i--)
		do
			r = claim_next(r);
		while (r && r->state != RUN_RETURNED);
	if (!r)
		return;
	if (rand() % 16 == 0) {
		for (uint64_t i = 0; i < r->count; i++)
			model[r->first + i].state = SETTLED;
		claim_give_up(&claim, r);
		return;
	}
	offset = r->first + (rand() % 8 ? 0 : (uint64_t)rand() % r->count);
	for (uint64_t i = r->first; i < offset; i++)
		model[i].state = SETTLED;
	d = make_delivery(offset);
	r = claim_hold_again(&claim, r, &d);
	assert_int_equal(r->count, 1);
	run_add(d.lease, r);
}

/* A part of a run that a holder has: its front, mostly. */
static struct run *choose(uint64_t *first, uint64_t *count)
{
	unsigned holder = (unsigned)rand() % HOLDERS;
	uint64_t tag = rand() % 3 ? 0 : (uint64_t)rand() % (next_tags[holder] + 1);
	struct run *r = run_from_tag(&holders[holder], tag);

	if (!r)
		return NULL;
	*first = r->first + (rand() % 2 ? 0 : (uint64_t)rand() % r->count);
	*count = 1 + (uint64_t)rand() % (run_end(r) - *first);
	run_remove(&holders[holder], r);
	return r;
}

static void step_settle(void)
{
	uint64_t first, count;
	struct run *r = choose(&first, &count);

	if (!r)
		return;
	for (uint64_t i = 0; i < count; i++)
		model[first + i].state = SETTLED;
	claim_settle(&claim, r, first, count, on_cut, r->lease);
}

static void step_return(void)
{
	enum claim_end end = (enum claim_end)(rand() % 3);
	int64_t due_ms = rand() % 2 ? 0 : 500 + rand() % 2;
	uint64_t first, count;
	struct run *r = choose(&first, &count);

	if (!r)
		return;
	for (uint64_t i = 0; i < count; i++) {
		model[first + i].state = RETURNED;
		model[first + i].due_ms = due_ms;
		model[first + i].deliveries += end != CLAIM_UNSEEN;
		model[first + i].failures += end == CLAIM_FAILED;
	}
	r = claim_return(&claim, r, &(struct claim_return){ first, count, due_ms, end },
			 on_cut, r->lease);
	assert_true(r->first <= first && first + count <= run_end(r));
}

static void step_isolate(void)
{
	uint64_t first, count;
	struct run *r = choose(&first, &count);

	if (!r)
		return;
	r = claim_isolate(&claim, r, first, count, on_cut, r->lease);
	assert_int_equal(r->first, first);
	assert_int_equal(r->count, count);
	run_add(r->lease, r);
}

static void step_settle_returned(void)
{
	struct run *r = claim_first_returned(&claim);
	uint64_t offset;

	if (!r)
		return;
	offset = r->first + (uint64_t)rand() % r->count;
	model[offset].state = SETTLED;
	claim_settle_returned(&claim, r, offset);
}

static void step_skip(void)
{
	uint64_t start = claim.committed + (uint64_t)rand() % 12, never = 0;

	for (uint64_t i = 0; i < start; i++) {
		never += model[i].state == NEW;
		if (model[i].state != HELD)
			model[i].state = SETTLED;
	}
	assert_int_equal(claim_skip(&claim, start), never);
}

static void run_model(unsigned seed)
{
	srand(seed);
	memset(model, 0, sizeof(model));
	memset(next_tags, 0, sizeof(next_tags));
	claim_reset(&claim, 0);
	for (unsigned i = 0; i < 4000 && claim.committed < OFFSETS; i++) {
		int dice = rand() % 100;

		if (dice < 45)
			step_hold();
		else if (dice < 58)
			step_hold_again();
		else if (dice < 80)
			step_settle();
		else if (dice < 92)
			step_return();
		else if (dice < 98)
			step_isolate();
		else if (rand() % 2)
			step_settle_returned();
		else if (rand() % 2)
			step_skip();
		check_all();
	}
	for (unsigned i = 0; i < HOLDERS; i++) {
		struct run *r;

		while ((r = run_from_tag(&holders[i], 0)) != NULL) {
			run_remove(&holders[i], r);
			claim_settle(&claim, r, r->first, r->count, on_cut, &holders[i]);
		}
	}
	claim_skip(&claim, claim.reached);
	assert_int_equal(claim.committed, claim.reached);
	assert_string_equal(runs(), "");
}

TEST_THAT(it_says_what_a_model_says)
{
	for (unsigned seed = 1; seed <= 40; seed++)
		run_model(seed);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
