#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/tally.h"

static const struct exposition_family ready = { "tidemq_queue_messages_ready",
						EXPOSITION_GAUGE, "Messages ready." };
static const struct exposition_family published = { "tidemq_published",
						    EXPOSITION_COUNTER, "Publishes." };
static const struct exposition_family build = { "tidemq_build", EXPOSITION_INFO,
						"The broker." };
static const struct exposition_family turns = { "tidemq_turn_seconds",
						EXPOSITION_HISTOGRAM, "Turns." };

static void expect(struct buf *out, const char *text)
{
	assert_string_equal(buf_cstr(out), text);
	buf_deinit(out);
}

TEST_THAT(families_have_help_and_type_and_then_samples)
{
	struct buf out = { 0 };
	struct exposition e = { .out = &out };
	struct exposition_label labels[] = { { "vhost", SLICE("/") },
					     { "queue", SLICE("jobs") } };

	exposition_family(&e, &ready);
	exposition_sample(&e, labels, 2, 3);
	labels[1].value = SLICE("other");
	exposition_sample(&e, labels, 2, 0.25);
	exposition_family(&e, &published);
	exposition_sample(&e, NULL, 0, 12345678901234.0);
	exposition_family(&e, &build);
	exposition_sample(&e, &(struct exposition_label){ "version", SLICE("1") }, 1, 1);
	exposition_end(&e);
	expect(&out, "# HELP tidemq_queue_messages_ready Messages ready.\n"
		     "# TYPE tidemq_queue_messages_ready gauge\n"
		     "tidemq_queue_messages_ready{vhost=\"/\",queue=\"jobs\"} 3\n"
		     "tidemq_queue_messages_ready{vhost=\"/\",queue=\"other\"} 0.25\n"
		     "# HELP tidemq_published_total Publishes.\n"
		     "# TYPE tidemq_published_total counter\n"
		     "tidemq_published_total 12345678901234\n"
		     "# HELP tidemq_build_info The broker.\n"
		     "# TYPE tidemq_build_info gauge\n"
		     "tidemq_build_info{version=\"1\"} 1\n");
}

TEST_THAT(openmetrics_names_families_without_their_endings)
{
	struct buf out = { 0 };
	struct exposition e = { .out = &out, .is_openmetrics = true };

	exposition_family(&e, &published);
	exposition_sample(&e, NULL, 0, 1);
	exposition_family(&e, &build);
	exposition_sample(&e, &(struct exposition_label){ "version", SLICE("1") }, 1, 1);
	exposition_end(&e);
	expect(&out, "# HELP tidemq_published Publishes.\n"
		     "# TYPE tidemq_published counter\n"
		     "tidemq_published_total 1\n"
		     "# HELP tidemq_build The broker.\n"
		     "# TYPE tidemq_build info\n"
		     "tidemq_build_info{version=\"1\"} 1\n"
		     "# EOF\n");
}

TEST_THAT(histograms_are_cumulative)
{
	struct buf out = { 0 };
	struct exposition e = { .out = &out };
	struct exposition_label label = { "kind", SLICE("a") };
	static const uint64_t steps[] = { 500000, 1000000, UINT64_MAX };
	struct tally t = { 0 };

	tally_add(&t, steps, 100);
	tally_add(&t, steps, 1000000);
	tally_add(&t, steps, 5000000);
	exposition_family(&e, &turns);
	exposition_tally(&e, NULL, 0, &t, steps, 1e9);
	exposition_tally(&e, &label, 1, &t, steps, 1e6);
	expect(&out, "# HELP tidemq_turn_seconds Turns.\n"
		     "# TYPE tidemq_turn_seconds histogram\n"
		     "tidemq_turn_seconds_bucket{le=\"0.0005\"} 1\n"
		     "tidemq_turn_seconds_bucket{le=\"0.001\"} 2\n"
		     "tidemq_turn_seconds_bucket{le=\"+Inf\"} 3\n"
		     "tidemq_turn_seconds_sum 0.0060001\n"
		     "tidemq_turn_seconds_count 3\n"
		     "tidemq_turn_seconds_bucket{kind=\"a\",le=\"0.5\"} 1\n"
		     "tidemq_turn_seconds_bucket{kind=\"a\",le=\"1.0\"} 2\n"
		     "tidemq_turn_seconds_bucket{kind=\"a\",le=\"+Inf\"} 3\n"
		     "tidemq_turn_seconds_sum{kind=\"a\"} 6.0001\n"
		     "tidemq_turn_seconds_count{kind=\"a\"} 3\n");
}

TEST_THAT(label_values_are_escaped)
{
	struct buf out = { 0 };
	struct exposition e = { .out = &out, .family = ready };
	struct exposition_label label = { "queue",
					  SLICE("a\"b\\c\nd \xc3\xa4\xff{},\xe2\x82") };

	exposition_sample(&e, &label, 1, 1);
	expect(&out, "tidemq_queue_messages_ready{queue=\"a\\\"b\\\\c\\nd \xc3\xa4"
		     "\xef\xbf\xbd{},\xef\xbf\xbd\xef\xbf\xbd\"} 1\n");
}

TEST_THAT(numbers_read_back_as_they_were)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = { { 0, "0" },
		      { 9007199254740991.0, "9007199254740991" },
		      { 1795257322.468, "1795257322.468" },
		      { -5, "-5" },
		      { 0.1, "0.1" },
		      { 1e300, "1e+300" },
		      { NAN, "NaN" },
		      { INFINITY, "+Inf" },
		      { -INFINITY, "-Inf" } };
	char expected[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = { 0 };
		struct exposition e = { .out = &out, .family = ready };

		exposition_sample(&e, NULL, 0, cases[i].value);
		snprintf(expected, sizeof(expected), "tidemq_queue_messages_ready %s\n",
			 cases[i].text);
		expect(&out, expected);
	}
}

TEST_THAT(accept_says_which_format_is_wanted)
{
	assert_true(exposition_wants_openmetrics(
		SLICE("application/openmetrics-text;version=1.0.0;q=0.5,"
		      "text/plain;version=0.0.4;q=0.3,*/*;q=0.2")));
	assert_true(exposition_wants_openmetrics(
		SLICE("text/plain, application/openmetrics-text")));
	assert_false(exposition_wants_openmetrics(SLICE("text/plain;version=0.0.4")));
	assert_false(exposition_wants_openmetrics(SLICE("*/*")));
	assert_false(exposition_wants_openmetrics(SLICE("")));
	assert_non_null(strstr(exposition_content_type(false), "version=0.0.4"));
	assert_non_null(strstr(exposition_content_type(true), "openmetrics"));
}

RUN_TESTS()
