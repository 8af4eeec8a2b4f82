#include "check.h"

#include <stdlib.h>

#include "shard/window.h"

#define ENTRIES 2000

static struct msg message = { .bytes = 10 };
static struct entry entries[ENTRIES];
static struct pool lanes;
static struct window window;

static int setup(void **state)
{
	memset(entries, 0, sizeof(entries));
	for (size_t i = 0; i < ENTRIES; i++) {
		entries[i].id = i + 1;
		entries[i].msg = &message;
	}
	pool_init(&lanes, sizeof(struct lane), 16);
	window_init(&window, &lanes);
	return 0;
}

static int teardown(void **state)
{
	struct entry *e;

	while ((e = window_first(&window)) != NULL)
		window_remove(&window, e);
	pool_deinit(&lanes);
	return 0;
}

static struct entry *at(uint64_t id)
{
	return &entries[id - 1];
}

/* The ids from first to last are these. */
static void assert_order(const uint64_t *ids, size_t count)
{
	struct entry *e = window_first(&window);

	for (size_t i = 0; i < count; i++, e = window_next(&window, e)) {
		assert_non_null(e);
		assert_int_equal(e->id, ids[i]);
	}
	assert_null(e);
	assert_int_equal(window.count, count);
	assert_int_equal(window.bytes, count * message.bytes);
	if (count)
		assert_int_equal(window_last(&window)->id, ids[count - 1]);
}

TEST_THAT(an_empty_window_has_no_first_and_no_last)
{
	assert_null(window_first(&window));
	assert_null(window_last(&window));
	assert_order(NULL, 0);
}

TEST_THAT(equal_scores_are_in_the_order_of_ids)
{
	static const uint64_t inserted[] = { 5, 9, 1, 7, 8, 2, 6, 3 };
	static const uint64_t wanted[] = { 1, 2, 3, 5, 6, 7, 8, 9 };

	for (size_t i = 0; i < COUNT(inserted); i++)
		window_insert(&window, at(inserted[i]), 0);
	assert_order(wanted, COUNT(wanted));
}

TEST_THAT(lower_scores_come_first)
{
	static const uint64_t wanted[] = { 3, 2, 4, 1 };

	window_insert(&window, at(1), 7.5);
	window_insert(&window, at(2), -1);
	window_insert(&window, at(3), -2);
	window_insert(&window, at(4), -1);
	assert_order(wanted, COUNT(wanted));
}

TEST_THAT(the_last_is_right_after_the_highest_score_is_gone)
{
	static const uint64_t wanted[] = { 1, 2 };

	window_insert(&window, at(1), 1);
	window_insert(&window, at(3), 9);
	window_remove(&window, at(3));
	assert_int_equal(window_last(&window)->id, 1);
	window_insert(&window, at(2), 5);
	assert_order(wanted, COUNT(wanted));
}

TEST_THAT(a_place_is_before_another_by_score_then_by_id)
{
	struct place a = { 1, 5 }, b = { 1, 6 }, c = { 2, 1 };

	assert_true(place_is_before(a, b));
	assert_false(place_is_before(b, a));
	assert_false(place_is_before(a, a));
	assert_true(place_is_before(b, c));
	assert_false(place_is_before(c, b));
}

static int compare_places(const void *a, const void *b)
{
	const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
	struct place p = { x->rank, x->id }, q = { y->rank, y->id };

	return place_is_before(p, q) ? -1 : 1;
}

TEST_THAT(random_insertions_and_removals_keep_the_order)
{
	struct entry *wanted[ENTRIES];
	uint64_t ids[ENTRIES];
	size_t count = 0;

	srand(7);
	for (int i = 0; i < 20000; i++) {
		struct entry *e = &entries[rand() % ENTRIES];

		if (e->lane) {
			window_remove(&window, e);
			assert_null(e->lane);
			continue;
		}
		e->rank = rand() % 9;
		window_insert(&window, e, e->rank);
		assert_true(window_place(e).score == e->rank);
	}
	for (size_t i = 0; i < ENTRIES; i++)
		if (entries[i].lane)
			wanted[count++] = &entries[i];
	qsort(wanted, count, sizeof(wanted[0]), compare_places);
	for (size_t i = 0; i < count; i++)
		ids[i] = wanted[i]->id;
	assert_order(ids, count);
}

/* What comes back between others, from wherever a client likes: a walk to each place
 * would take minutes. */
static void check_returns(size_t count, size_t (*pick)(size_t i, size_t half))
{
	struct entry *many = calloc(count, sizeof(*many));
	struct entry *e;
	size_t half = count / 2;

	assert_non_null(many);
	for (size_t i = 0; i < count; i++) {
		many[i].id = i + 1;
		many[i].msg = &message;
		window_insert(&window, &many[i], 0);
	}
	for (size_t i = 0; i < half; i++)
		window_remove(&window, &many[2 * i + 1]);
	for (size_t i = 0; i < half; i++)
		window_insert(&window, &many[2 * pick(i, half) + 1], 0);
	e = window_first(&window);
	for (size_t i = 0; i < count; i++, e = window_next(&window, e))
		assert_ptr_equal(e, &many[i]);
	/* The fingers move on as those at which they are go, and some come back. */
	for (size_t i = 0; i < count; i++)
		if (i % 7 != 3)
			window_remove(&window, &many[i]);
	for (size_t i = 0; i < count; i += 21)
		window_insert(&window, &many[i], 0);
	for (size_t i = 0; i < count; i++) {
		if (!many[i].lane)
			continue;
		assert_ptr_equal(window_first(&window), &many[i]);
		window_remove(&window, &many[i]);
		assert_int_equal(many[i].flags, 0);
	}
	free(many);
}

static size_t pick_in_order(size_t i, size_t half)
{
	return i;
}

static size_t pick_backwards(size_t i, size_t half)
{
	return half - 1 - i;
}

/* From two places at once, so that the last one is far away from the next. */
static size_t pick_alternating(size_t i, size_t half)
{
	return i % 2 ? half / 2 + i / 2 : i / 2;
}

/* A step that has no divisor in common with the count visits all. */
static size_t pick_scattered(size_t i, size_t half)
{
	return (size_t)((uint64_t)i * 7919 % half);
}

TEST_THAT(returning_in_any_order_is_no_long_walk)
{
	check_returns(500000, pick_in_order);
	check_returns(500000, pick_backwards);
	check_returns(500000, pick_alternating);
	check_returns(500000, pick_scattered);
}

/* How many calls it takes; what is found must be the first that is not before. */
static unsigned seek(double score, uint64_t id, const struct entry *wanted)
{
	unsigned calls = 1;
	struct entry *e;

	while (!window_seek(&window, (struct place){ score, id }, &e))
		calls++;
	assert_ptr_equal(e, wanted);
	return calls;
}

TEST_THAT(a_place_is_found_in_any_lane)
{
	assert_int_equal(seek(0, 1, NULL), 1);
	for (uint64_t id = 1; id <= 100; id++)
		if (id % 3 == 0)
			window_insert(&window, at(id), id <= 50 ? 1 : 2);
	for (uint64_t id = 1; id <= 110; id++) {
		uint64_t first = (id + 2) / 3 * 3;

		seek(id <= 50 ? 1 : 2, id, first <= 99 ? at(first) : NULL);
	}
	seek(0, 70, at(3));
	seek(1.5, 99, at(51));
	seek(1, 99, at(51));
	seek(3, 1, NULL);
}

TEST_THAT(a_long_walk_is_made_in_pieces_and_once)
{
	const size_t count = 200000;
	struct entry *many = calloc(count, sizeof(*many));

	for (size_t i = 0; i < count; i++) {
		many[i].id = i + 1;
		many[i].msg = &message;
		window_insert(&window, &many[i], 0);
	}
	assert_true(seek(0, count / 2, &many[count / 2 - 1]) > 3);
	assert_int_equal(seek(0, count / 2, &many[count / 2 - 1]), 1);
	/* Page by page from there, as a reader goes on, also over what has left. */
	for (size_t i = count / 2; i + 1000 < count; i += 1000) {
		assert_int_equal(seek(0, i + 1000, &many[i + 999]), 1);
		window_remove(&window, &many[i + 999]);
		assert_int_equal(seek(0, i + 1000, &many[i + 1000]), 1);
	}
	for (size_t i = 0; i < count; i++) {
		if (many[i].lane)
			window_remove(&window, &many[i]);
		assert_int_equal(many[i].flags, 0);
	}
	free(many);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
