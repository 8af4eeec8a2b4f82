#include "check.h"

#include <stdio.h>

#include "session/ranking.h"

static void offer(struct ranking *r, double figure, const char *name)
{
	struct slice s = slice_from(name);

	if (ranking_wants(r, figure, s))
		ranking_add(r, figure, s, SLICE("text"));
	else
		ranking_pass(r);
}

static void expect(struct ranking *r, const char *names)
{
	struct slice rest = slice_from(names);

	while (ranking_sort(r))
		;
	for (size_t i = 0; i < r->count; i++) {
		struct slice name = slice_cut(&rest, ' ');

		assert_int_equal(name.len, r->rows[i].name_len);
		assert_memory_equal(name.data, r->rows[i].name, name.len);
		assert_string_equal("text", r->rows[i].text);
	}
	assert_int_equal(rest.len, 0);
	ranking_deinit(r);
}

static void offer_all(struct ranking *r)
{
	offer(r, 3, "c");
	offer(r, 1, "b");
	offer(r, 3, "a");
	offer(r, 0, "ab");
	offer(r, 7, "d");
}

TEST_THAT(rows_are_in_the_order_of_their_names)
{
	struct ranking r;

	ranking_init(&r, SIZE_MAX, true, false);
	offer_all(&r);
	expect(&r, "a ab b c d");
	ranking_init(&r, SIZE_MAX, true, true);
	offer_all(&r);
	expect(&r, "d c b ab a");
}

TEST_THAT(equal_figures_are_in_the_order_of_their_names)
{
	struct ranking r;

	ranking_init(&r, SIZE_MAX, false, true);
	offer_all(&r);
	expect(&r, "d a c b ab");
	ranking_init(&r, SIZE_MAX, false, false);
	offer_all(&r);
	expect(&r, "ab b a c d");
}

TEST_THAT(only_the_first_are_kept)
{
	struct ranking r;

	ranking_init(&r, 2, false, true);
	offer_all(&r);
	expect(&r, "d a");
	ranking_init(&r, 1, true, false);
	offer_all(&r);
	expect(&r, "a");
	ranking_init(&r, 0, true, false);
	offer_all(&r);
	expect(&r, "");
}

TEST_THAT(equal_names_stay_as_they_were_offered)
{
	struct ranking r;

	ranking_init(&r, 100, true, false);
	for (int i = 0; i < 1000; i++)
		offer(&r, i, "same");
	while (ranking_sort(&r))
		;
	assert_int_equal(r.count, 100);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(r.rows[i].number, i);
	ranking_deinit(&r);
}

TEST_THAT(pages_of_many_rows_have_each_once)
{
	enum { COUNT = 2000, PAGE = 300 };
	char name[16];
	struct ranking r;
	unsigned next = 0;

	for (size_t from = 0; from < COUNT; from += PAGE) {
		ranking_init(&r, from + PAGE, false, false);
		for (unsigned i = 0; i < COUNT; i++) {
			snprintf(name, sizeof(name), "%u", i * 1567 % COUNT);
			offer(&r, i * 1567 % COUNT, name);
		}
		while (ranking_sort(&r))
			;
		for (size_t i = from; i < r.count; i++)
			assert_float_equal(r.rows[i].figure, next++, 0);
		ranking_deinit(&r);
	}
	assert_int_equal(next, COUNT);
}

RUN_TESTS()
