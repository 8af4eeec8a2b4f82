/* Gauges and histograms. */

#include "check.h"

#include <stdio.h>

#include "rules/api/meters.h"

static struct meter_handle gauge(const char *text)
{
	return (struct meter_handle){ .text = slice_from(text),
				      .name_len = strcspn(text, "{"),
				      .load = 1,
				      .file = "a.lua" };
}

static const double bounds[] = { 1, 10 };

static struct meter_handle histogram(const char *text)
{
	struct meter_handle h = gauge(text);

	h.type = METER_HISTOGRAM;
	h.bucket_count = 2;
	h.buckets = bounds;
	return h;
}

static void set(struct meters *m, struct meter_handle h, double value)
{
	struct error err;

	assert_int_equal(meters_set(m, &h, value, &err), TIDE_OK);
}

static void count_views(void *ctx, const struct meter_view *v)
{
	++*(int *)ctx;
}

static int count(struct meters *m)
{
	int n = 0;

	meters_each(m, count_views, &n);
	return n;
}

static double get(struct meters *m, const char *text)
{
	const struct meter_handle h = gauge(text);

	return meters_get(m, &h);
}

TEST_THAT(a_gauge_is_set_and_moved)
{
	struct meters *m = meters_create();
	struct meter_handle h = gauge("g{a=\"1\"}");
	struct error err;

	assert_true(get(m, "g{a=\"1\"}") == 0);
	set(m, h, 2);
	assert_int_equal(meters_add(m, &h, -3.5, &err), TIDE_OK);
	assert_true(get(m, "g{a=\"1\"}") == -1.5);
	assert_true(meters_has(m, SLICE("g")));
	assert_false(meters_has(m, SLICE("g{")));
	meters_destroy(m);
}

TEST_THAT(nothing_grows_to_infinity)
{
	const double most = 1.7e308;
	struct meters *m = meters_create();
	struct meter_handle g = gauge("g"), h = gauge("h");
	struct error err;

	set(m, g, most);
	assert_int_equal(meters_add(m, &g, most, &err), TIDE_EMISMATCH);
	assert_string_equal(err.text, "'g' plus this is not a finite number");
	assert_true(get(m, "g") == most);
	h.type = METER_HISTOGRAM;
	assert_int_equal(meters_observe(m, &h, -most, &err), TIDE_OK);
	assert_int_equal(meters_observe(m, &h, -most, &err), TIDE_EMISMATCH);
	meters_destroy(m);
}

static void check_buckets(void *ctx, const struct meter_view *v)
{
	assert_int_equal(v->counts[0], 2);
	assert_int_equal(v->counts[1], 1);
	assert_int_equal(v->counts[2], 1);
	assert_true(v->value == 23.5);
	assert_true(slice_is(v->name, "h"));
}

TEST_THAT(a_histogram_counts_in_buckets)
{
	static const double values[] = { 0.5, 1, 2, 20 };
	struct meters *m = meters_create();
	struct meter_handle h = histogram("h");
	struct error err;

	for (int i = 0; i < 4; i++)
		assert_int_equal(meters_observe(m, &h, values[i], &err), TIDE_OK);
	meters_each(m, check_buckets, NULL);
	assert_int_equal(count(m), 1);
	meters_destroy(m);
}

TEST_THAT(what_scripts_disagree_about_is_an_error)
{
	static const double others[] = { 1, 11 };
	struct meters *m = meters_create();
	struct meter_handle h = histogram("g");
	struct error err;

	set(m, gauge("g"), 1);
	assert_int_equal(meters_observe(m, &h, 1, &err), TIDE_EMISMATCH);
	assert_string_equal(err.text, "'g' is a gauge in a.lua");
	/* A newer generation is right, an older one no more. */
	h.load = 2;
	assert_int_equal(meters_observe(m, &h, 1, &err), TIDE_OK);
	struct meter_handle old = gauge("g");
	assert_int_equal(meters_set(m, &old, 1, &err), TIDE_EMISMATCH);
	h.buckets = others;
	assert_int_equal(meters_observe(m, &h, 1, &err), TIDE_EMISMATCH);
	assert_string_equal(err.text, "'g' is a histogram with other buckets in a.lua");
	h.load = 3;
	assert_int_equal(meters_observe(m, &h, 1, &err), TIDE_OK);
	assert_int_equal(count(m), 1);
	meters_destroy(m);
}

TEST_THAT(labels_beyond_the_bound_are_counted_together)
{
	struct meters *m = meters_create();
	char text[64];

	for (int i = 0; i < SERIES_PER_METRIC + 7; i++) {
		struct error err;
		snprintf(text, sizeof(text), "g{a=\"%d\"}", i);
		struct meter_handle h = gauge(text);
		assert_int_equal(meters_add(m, &h, 1, &err), TIDE_OK);
	}
	assert_true(get(m, "g{a=\"other\"}") == 7);
	assert_int_equal(count(m), SERIES_PER_METRIC + 1);
	/* Names that clients choose end up in one. */
	for (int i = 0; i < 3 * SERIES_PER_METRIC; i++) {
		snprintf(text, sizeof(text), "g{a%d=\"1\"}", i);
		set(m, gauge(text), 1);
	}
	assert_int_equal(count(m), 2 * SERIES_PER_METRIC + 1);
	assert_true(get(m, "g") == 1);
	meters_destroy(m);
}

TEST_THAT(all_metrics_together_are_bounded)
{
	struct meters *m = meters_create();
	char text[64];
	struct error err;

	for (int name = 0; name < METERS_MAX; name++) {
		for (int i = 0; i < 20; i++) {
			snprintf(text, sizeof(text), "h%d{a=\"%d\"}", name, i);
			struct meter_handle h = histogram(text);
			assert_int_equal(meters_observe(m, &h, 1, &err), TIDE_OK);
		}
	}
	/* As many as are allowed, and one for each name. */
	assert_true(count(m) <= SERIES_IN_ALL / 5 + METERS_MAX);
	struct meter_handle more = gauge("more");
	assert_int_equal(meters_set(m, &more, 1, &err), TIDE_ELIMIT);
	meters_destroy(m);
}

TEST_THAT(what_no_generation_writes_any_more_makes_room)
{
	struct meters *m = meters_create();
	char text[64];

	for (int name = 0; name < METERS_MAX; name++) {
		snprintf(text, sizeof(text), "old%d", name);
		set(m, gauge(text), 1);
	}
	struct meter_handle kept = gauge("old0"), more = gauge("more");
	kept.load = more.load = 2;
	set(m, kept, 5);
	set(m, more, 1);
	assert_true(get(m, "old0") == 5 && get(m, "more") == 1);
	assert_int_equal(count(m), METERS_MAX);
	/* Lines as well as names. */
	for (int i = 0; i < SERIES_IN_ALL; i++) {
		snprintf(text, sizeof(text), "m%d{a=\"%d\"}", i / SERIES_PER_METRIC, i);
		struct meter_handle h = gauge(text);
		h.load = 3;
		set(m, h, 1);
	}
	assert_int_equal(count(m), SERIES_IN_ALL);
	assert_false(meters_has(m, SLICE("more")));
	assert_true(get(m, "m3{a=\"1999\"}") == 1);
	meters_destroy(m);
}

RUN_TESTS()
