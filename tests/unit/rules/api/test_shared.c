
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/api/shared.h"

#define NOW INT64_C(1790000000000)

static struct shared_op op(const char *key)
{
	return (struct shared_op){ .space = SHARED_KEYS,
				   .key = slice_from(key),
				   .now_ms = NOW };
}

static struct shared_op later(const char *key, int64_t ms)
{
	struct shared_op o = op(key);
	o.now_ms += ms;
	return o;
}

static struct shared_op for_ms(const char *key, int64_t ttl_ms)
{
	struct shared_op o = op(key);
	o.expires_unix_ms = NOW + ttl_ms;
	return o;
}

static struct shared_value integer(int64_t n)
{
	return (struct shared_value){ .type = SHARED_INTEGER, .integer = n };
}

static struct shared_value text(const char *s)
{
	return (struct shared_value){ .type = SHARED_TEXT, .text = slice_from(s) };
}

static int set_op(struct shared *s, struct shared_op o, struct shared_value v)
{
	struct error err;
	return shared_set(s, &o, &v, &err);
}

static int add_op(struct shared *s, struct shared_op o, struct shared_value v)
{
	struct error err;
	return shared_add(s, &o, &v, &err);
}

static int64_t incr_op(struct shared *s, struct shared_op o, int64_t by)
{
	struct shared_value sum, n = integer(by);
	struct error err;
	if (shared_incr(s, &o, &n, &sum, &err) != TIDE_OK)
		fail_msg("%s", err.text);
	assert_int_equal(sum.type, SHARED_INTEGER);
	return sum.integer;
}

static bool has_op(struct shared *s, struct shared_op o)
{
	struct shared_value v;
	return shared_get(s, &o, &v) == TIDE_OK;
}

static bool remove_op(struct shared *s, struct shared_op o)
{
	return shared_remove(s, &o);
}

static struct shared_stats stats_of(struct shared *s)
{
	struct shared_stats st;
	shared_stats(s, &st);
	return st;
}

/* What was sent, as "key=text;", "key-;" for what is gone. */
static char sent[4096];

static void on_change(void *ctx, struct slice key, struct slice value)
{
	size_t len = strlen(sent);
	if (value.data)
		snprintf(sent + len, sizeof(sent) - len, "%.*s=%.*s;", SLICE_ARG(key),
			 SLICE_ARG(value));
	else
		snprintf(sent + len, sizeof(sent) - len, "%.*s-;", SLICE_ARG(key));
}

static const char *send_all(struct shared *s)
{
	sent[0] = '\0';
	shared_send(s, 1000, on_change, NULL);
	return sent;
}

TEST_THAT(values_of_each_type_come_back)
{
	struct shared *s = shared_create(0, 0);
	struct shared_op o = op("k");
	struct shared_value v = { .type = SHARED_BOOLEAN, .boolean = true };
	assert_false(has_op(s, o));
	assert_int_equal(set_op(s, o, v), TIDE_OK);
	assert_int_equal(shared_get(s, &o, &v), TIDE_OK);
	assert_true(v.type == SHARED_BOOLEAN && v.boolean);
	assert_int_equal(set_op(s, o, text("long enough to be allocated")), TIDE_OK);
	assert_int_equal(shared_get(s, &o, &v), TIDE_OK);
	assert_true(slice_is(v.text, "long enough to be allocated"));
	/* The value that is there may be given again. */
	assert_int_equal(set_op(s, o, v), TIDE_OK);
	assert_int_equal(set_op(s, o, integer(-7)), TIDE_OK);
	assert_int_equal(shared_get(s, &o, &v), TIDE_OK);
	assert_int_equal(v.integer, -7);
	assert_true(remove_op(s, o));
	assert_false(remove_op(s, o));
	assert_int_equal(stats_of(s).entries, 0);
	assert_int_equal(stats_of(s).bytes, 0);
	shared_destroy(s);
}

TEST_THAT(a_key_and_a_counter_of_one_name_do_not_meet)
{
	struct shared *s = shared_create(0, 0);
	struct shared_op key = op("n"), counter = op("n");
	counter.space = SHARED_COUNTERS;
	assert_int_equal(incr_op(s, counter, 5), 5);
	assert_false(has_op(s, key));
	assert_int_equal(incr_op(s, key, 1), 1);
	assert_int_equal(incr_op(s, counter, 1), 6);
	shared_destroy(s);
}

TEST_THAT(incr_adds_to_numbers_alone)
{
	struct shared *s = shared_create(0, 0);
	struct shared_op o = op("n");
	struct shared_value by = { .type = SHARED_NUMBER, .number = 0.5 }, sum;
	struct error err;
	assert_int_equal(incr_op(s, o, 1), 1);
	assert_int_equal(incr_op(s, o, -3), -2);
	assert_int_equal(shared_incr(s, &o, &by, &sum, &err), TIDE_OK);
	assert_true(sum.type == SHARED_NUMBER && sum.number == -1.5);
	assert_int_equal(set_op(s, o, text("12")), TIDE_OK);
	assert_int_equal(shared_incr(s, &o, &by, &sum, &err), TIDE_EMISMATCH);
	assert_string_equal(err.text, "'n' is not a number but a string");
	assert_int_equal(set_op(s, o, integer(INT64_MAX)), TIDE_OK);
	by = integer(1);
	assert_int_equal(shared_incr(s, &o, &by, &sum, &err), TIDE_EMISMATCH);
	shared_destroy(s);
}

TEST_THAT(a_dry_call_answers_and_changes_nothing)
{
	struct shared *s = shared_create(1, 0);
	struct shared_op dry = op("n"), wet = op("n");
	dry.is_dry = true;
	assert_int_equal(incr_op(s, dry, 3), 3);
	assert_int_equal(add_op(s, dry, integer(1)), TIDE_OK);
	assert_false(has_op(s, wet));
	assert_int_equal(incr_op(s, wet, 3), 3);
	assert_int_equal(incr_op(s, dry, 3), 6);
	assert_int_equal(add_op(s, dry, integer(1)), TIDE_EEXISTS);
	assert_true(remove_op(s, dry));
	assert_int_equal(incr_op(s, wet, 0), 3);
	shared_destroy(s);
}

TEST_THAT(what_has_expired_is_not_there)
{
	struct shared *s = shared_create(0, 0);
	assert_int_equal(set_op(s, for_ms("k", 100), integer(1)), TIDE_OK);
	assert_true(has_op(s, later("k", 99)));
	assert_false(has_op(s, later("k", 100)));
	assert_false(remove_op(s, later("k", 100)));
	assert_int_equal(add_op(s, later("k", 99), integer(2)), TIDE_EEXISTS);
	assert_int_equal(add_op(s, later("k", 100), integer(2)), TIDE_OK);
	assert_true(has_op(s, later("k", 100000)));
	shared_destroy(s);
}

TEST_THAT(incr_refuses_what_is_not_finite)
{
	struct shared *s = shared_create(0, 0);
	struct shared_op o = op("n");
	const double bad[] = { NAN, INFINITY, -INFINITY };
	struct shared_value by = { .type = SHARED_NUMBER, .number = 1e308 }, sum;
	struct error err;
	o.space = SHARED_COUNTERS;
	assert_int_equal(shared_incr(s, &o, &by, &sum, &err), TIDE_OK);
	assert_int_equal(shared_incr(s, &o, &by, &sum, &err), TIDE_EMISMATCH);
	assert_string_equal(err.text, "'n' plus this is not a finite number");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		by.number = bad[i];
		assert_int_equal(shared_incr(s, &o, &by, &sum, &err), TIDE_EMISMATCH);
	}
	assert_int_equal(shared_get(s, &o, &sum), TIDE_OK);
	assert_true(sum.number == 1e308);
	shared_destroy(s);
}

TEST_THAT(incr_keeps_the_expiry_of_what_is_there)
{
	struct shared *s = shared_create(0, 0);
	struct shared_op o = later("n", 50);
	o.expires_unix_ms = NOW + 1000;
	assert_int_equal(incr_op(s, for_ms("n", 100), 1), 1);
	assert_int_equal(incr_op(s, o, 1), 2);
	assert_int_equal(incr_op(s, later("n", 99), 1), 3);
	assert_int_equal(incr_op(s, later("n", 100), 1), 1);
	assert_true(has_op(s, later("n", 100000)));
	shared_destroy(s);
}

TEST_THAT(a_full_dictionary_says_so_and_evicts_nothing)
{
	struct shared *s = shared_create(3, 0);
	struct shared_op o = op("d");
	struct shared_value v = integer(1);
	struct error err;
	assert_int_equal(set_op(s, op("a"), v), TIDE_OK);
	assert_int_equal(set_op(s, op("b"), v), TIDE_OK);
	assert_int_equal(set_op(s, for_ms("c", 10), v), TIDE_OK);
	assert_int_equal(shared_set(s, &o, &v, &err), TIDE_ELIMIT);
	assert_non_null(strstr(err.text, "3 entries"));
	/* What is there can still be changed. */
	assert_int_equal(set_op(s, op("a"), integer(2)), TIDE_OK);
	assert_true(has_op(s, op("b")) && has_op(s, op("c")));
	/* What has expired makes room first. */
	assert_int_equal(set_op(s, later("d", 10), v), TIDE_OK);
	assert_int_equal(stats_of(s).entries, 3);
	shared_destroy(s);
}

TEST_THAT(bytes_are_bounded)
{
	struct shared *s = shared_create(0, 4096);
	char big[3000];
	struct error err;
	struct shared_op o = op("b");
	struct shared_value v = { .type = SHARED_TEXT, .text = { big, sizeof(big) } };
	memset(big, 'x', sizeof(big));
	assert_int_equal(set_op(s, for_ms("a", 10), v), TIDE_OK);
	assert_int_equal(shared_set(s, &o, &v, &err), TIDE_ELIMIT);
	assert_non_null(strstr(err.text, "bytes do not fit into 4096"));
	assert_int_equal(set_op(s, op("b"), integer(1)), TIDE_OK);
	assert_int_equal(shared_set(s, &o, &v, &err), TIDE_ELIMIT);
	assert_int_equal(set_op(s, later("b", 10), v), TIDE_OK);
	assert_int_equal(set_op(s, later("b", 10), text("")), TIDE_OK);
	assert_true(stats_of(s).bytes < 1000);
	shared_destroy(s);
}

TEST_THAT(many_short_lives_need_little_room)
{
	struct shared *s = shared_create(1000, 0);
	char key[32];
	for (int i = 0; i < 100000; i++) {
		snprintf(key, sizeof(key), "id-%d", i);
		struct shared_op o = later(key, i);
		o.expires_unix_ms = o.now_ms + 500;
		assert_int_equal(add_op(s, o, integer(1)), TIDE_OK);
		assert_int_equal(add_op(s, o, integer(1)), TIDE_EEXISTS);
	}
	assert_true(stats_of(s).entries <= 501);
	shared_expire(s, NOW + 1000000, 1000);
	assert_int_equal(stats_of(s).entries, 0);
	shared_destroy(s);
}

TEST_THAT(changes_are_told_once_and_again_when_they_were_not_kept)
{
	struct shared *s = shared_create(0, 0);
	assert_int_equal(set_op(s, op("before"), integer(1)), TIDE_OK);
	shared_keep(s);
	assert_false(shared_is_dirty(s));
	assert_int_equal(set_op(s, op("a"), integer(1)), TIDE_OK);
	assert_int_equal(set_op(s, op("a"), integer(2)), TIDE_OK);
	assert_int_equal(set_op(s, for_ms("b", 100), text("x y")), TIDE_OK);
	assert_string_equal(send_all(s), "k:a=0 i2;k:b=1790000000100 sx y;");
	assert_false(shared_is_dirty(s));
	assert_false(shared_is_written(s));
	shared_sent(s, false);
	assert_string_equal(send_all(s), "k:a=0 i2;k:b=1790000000100 sx y;");
	assert_int_equal(set_op(s, op("a"), integer(3)), TIDE_OK);
	shared_sent(s, true);
	assert_string_equal(send_all(s), "k:a=0 i3;");
	shared_sent(s, true);
	assert_true(shared_is_written(s));
	assert_int_equal(stats_of(s).unwritten, 0);
	shared_destroy(s);
}

TEST_THAT(what_is_gone_is_remembered_until_it_is_forgotten_elsewhere)
{
	struct shared *s = shared_create(0, 0);
	shared_keep(s);
	/* Never kept: nobody needs to know. */
	assert_int_equal(set_op(s, op("a"), integer(1)), TIDE_OK);
	assert_true(remove_op(s, op("a")));
	assert_true(shared_is_written(s));
	assert_int_equal(stats_of(s).entries, 0);
	/* Removed while it is on its way. */
	assert_int_equal(set_op(s, op("a"), text("x")), TIDE_OK);
	assert_string_equal(send_all(s), "k:a=0 sx;");
	assert_true(remove_op(s, op("a")));
	assert_false(has_op(s, op("a")));
	shared_sent(s, true);
	assert_string_equal(send_all(s), "k:a-;");
	/* And made again while that is. */
	assert_int_equal(add_op(s, op("a"), integer(5)), TIDE_OK);
	shared_sent(s, true);
	assert_string_equal(send_all(s), "k:a=0 i5;");
	shared_sent(s, true);
	/* What expires is removed elsewhere too. */
	assert_int_equal(set_op(s, for_ms("a", 1), integer(1)), TIDE_OK);
	send_all(s);
	shared_sent(s, true);
	shared_expire(s, NOW + 1, 10);
	assert_string_equal(send_all(s), "k:a-;");
	shared_sent(s, false);
	assert_string_equal(send_all(s), "k:a-;");
	shared_sent(s, true);
	assert_int_equal(stats_of(s).entries, 0);
	shared_destroy(s);
}

TEST_THAT(what_was_kept_comes_back)
{
	struct shared *a = shared_create(0, 0), *b = shared_create(0, 0);
	struct shared_value v = { .type = SHARED_NUMBER, .number = 0.1 };
	static const char *const unreadable[] = {
		"", "0", "0 ", "x i1", "0 i", "0 ix", "0 i1x", "0 q1", "0 b", "-1 i1"
	};
	assert_int_equal(set_op(a, op("n"), v), TIDE_OK);
	struct shared_op counter = op("c");
	counter.space = SHARED_COUNTERS;
	incr_op(a, counter, 3);
	assert_int_equal(shared_restore(b, SLICE("k:n"), SLICE("0 n0.10000000000000001")),
			 TIDE_OK);
	assert_int_equal(shared_restore(b, SLICE("k:t"), SLICE("1790000000100 sa b")),
			 TIDE_OK);
	assert_int_equal(shared_restore(b, SLICE("k:f"), SLICE("0 b0")), TIDE_OK);
	assert_int_equal(shared_restore(b, SLICE("c:c"), SLICE("0 i3")), TIDE_OK);
	struct shared_op o = op("n");
	assert_int_equal(shared_get(b, &o, &v), TIDE_OK);
	assert_true(v.type == SHARED_NUMBER && v.number == 0.1);
	o = op("t");
	assert_int_equal(shared_get(b, &o, &v), TIDE_OK);
	assert_true(slice_is(v.text, "a b"));
	assert_false(has_op(b, later("t", 100)));
	o = op("f");
	assert_int_equal(shared_get(b, &o, &v), TIDE_OK);
	assert_true(v.type == SHARED_BOOLEAN && !v.boolean);
	assert_int_equal(incr_op(b, counter, 1), 4);
	for (size_t i = 0; i < sizeof(unreadable) / sizeof(unreadable[0]); i++)
		assert_int_equal(
			shared_restore(b, SLICE("k:u"), slice_from(unreadable[i])),
			TIDE_ESYNTAX);
	assert_int_equal(shared_restore(b, SLICE("z:u"), SLICE("0 i1")), TIDE_ESYNTAX);
	assert_int_equal(shared_restore(b, SLICE("k:"), SLICE("0 i1")), TIDE_ESYNTAX);
	assert_int_equal(stats_of(b).entries, 4);
	shared_destroy(a);
	shared_destroy(b);
}

static struct shared_op by(const char *file, const char *vhost, const char *key)
{
	struct shared_op o = op(key);
	o.file = file;
	o.vhost = slice_from(vhost);
	return o;
}

static int fill(struct shared *s, const char *file, const char *vhost)
{
	char key[32];
	int n = 0;
	do
		snprintf(key, sizeof(key), "%s %s %d", file, vhost, n);
	while (set_op(s, by(file, vhost, key), integer(1)) == TIDE_OK && ++n < 1000);
	return n;
}

static void count_entries(void *ctx, const struct shared_payer_stats *payer)
{
	*(size_t *)ctx += payer->entries;
}

TEST_THAT(a_payer_leaves_room_to_the_others)
{
	struct shared *s = shared_create(100, 0);
	struct shared_op o = by("a.lua", "/", "more");
	struct shared_value v = integer(1);
	struct error err;
	size_t entries = 0;
	assert_int_equal(fill(s, "a.lua", "/"), 76);
	assert_int_equal(shared_set(s, &o, &v, &err), TIDE_ELIMIT);
	assert_non_null(strstr(err.text, "tide.shared is full for a.lua in vhost '/': it "
					 "holds 76 of 100 entries, its share is 76"));
	/* The same file for another vhost, and another file. */
	assert_int_equal(fill(s, "a.lua", "v"), 11);
	assert_int_equal(fill(s, "b.lua", "/"), 11);
	assert_int_equal(fill(s, "a.lua", "/"), 76);
	shared_each_payer(s, count_entries, &entries);
	assert_int_equal(entries, 98);
	/* What changes is no new entry. */
	assert_int_equal(set_op(s, by("c.lua", "/", "a.lua / 0"), integer(2)), TIDE_OK);
	/* Others have grown: the first to come has less than it had. */
	assert_true(remove_op(s, by("c.lua", "/", "a.lua / 0")));
	assert_int_equal(set_op(s, o, integer(1)), TIDE_ELIMIT);
	shared_destroy(s);
}

TEST_THAT(a_script_has_a_share_over_all_vhosts)
{
	struct shared *s = shared_create(1000, 0);
	char vhost[16];
	int sum = 0;

	for (int i = 0; i < 100; i++) {
		snprintf(vhost, sizeof(vhost), "v%d", i);
		sum += fill(s, "a.lua", vhost);
	}
	assert_true(sum > 850 && sum <= 875);
	assert_true(fill(s, "b.lua", "/") > 80);
	shared_destroy(s);
}

TEST_THAT(an_entry_is_touched)
{
	struct shared *s = shared_create(0, 0);

	assert_false(shared_touch(
		s, &(struct shared_op){ .space = SHARED_KEYS, .key = SLICE("t") }));
	assert_int_equal(set_op(s, for_ms("t", 10), integer(1)), TIDE_OK);
	struct shared_op longer = for_ms("t", 100);
	assert_true(shared_touch(s, &longer));
	assert_true(has_op(s, later("t", 50)));
	longer.expires_unix_ms = 0;
	assert_true(shared_touch(s, &longer));
	assert_true(has_op(s, later("t", 5000)));
	shared_destroy(s);
}

static void count_found(void *ctx, const struct shared_info *info)
{
	unsigned *seen = ctx;
	char digits[16] = "";

	memcpy(digits, info->key.data + 2, info->key.len - 2);
	seen[atoi(digits)]++;
}

static struct shared *filled(int count)
{
	struct shared *s = shared_create(0, 0);
	char key[32];

	for (int i = 0; i < count; i++) {
		snprintf(key, sizeof(key), "p:%d", i);
		assert_int_equal(set_op(s, op(key), integer(i)), TIDE_OK);
		snprintf(key, sizeof(key), "q:%d", i);
		assert_int_equal(set_op(s, for_ms(key, 10), integer(i)), TIDE_OK);
	}
	return s;
}

TEST_THAT(a_scan_finds_each_key_of_the_prefix)
{
	static unsigned seen[20000];
	struct shared *s = filled(20000);
	struct shared_scan scan = { .space = SHARED_KEYS,
				    .prefix = SLICE("p:"),
				    .now_ms = NOW };
	int steps = 0;

	memset(seen, 0, sizeof(seen));
	do {
		shared_scan(s, &scan, count_found, seen);
		assert_true(scan.looks < SHARED_SCAN_LOOKS + 100);
		assert_true(scan.found < SHARED_SCAN_FOUND + 100);
		steps++;
	} while (scan.cursor);
	assert_true(steps >= 4);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(seen[i], 1);
	/* Those that have expired are not found. */
	scan.prefix = SLICE("q:");
	scan.now_ms = NOW + 10;
	do
		shared_scan(s, &scan, count_found, seen);
	while (scan.cursor);
	assert_int_equal(seen[0], 1);
	shared_destroy(s);
}

TEST_THAT(a_scan_goes_on_while_the_table_grows)
{
	static unsigned seen[40000];
	struct shared *s = filled(2000);
	struct shared_scan scan = { .space = SHARED_KEYS,
				    .prefix = SLICE("p:"),
				    .now_ms = NOW };
	char key[32];
	int next = 2000;

	memset(seen, 0, sizeof(seen));
	do {
		shared_scan(s, &scan, count_found, seen);
		for (int i = 0; i < 8000 && next < 40000; i++, next++) {
			snprintf(key, sizeof(key), "p:%d", next);
			assert_int_equal(set_op(s, op(key), integer(1)), TIDE_OK);
		}
	} while (scan.cursor);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(seen[i], 1);
	shared_destroy(s);
}

TEST_THAT(a_clear_removes_what_has_the_prefix)
{
	struct shared *s = filled(3000);
	struct shared_scan scan = { .space = SHARED_KEYS,
				    .prefix = SLICE("p:"),
				    .now_ms = NOW };
	size_t sum = 0;

	do {
		shared_scan(s, &scan, NULL, NULL);
		sum += scan.found;
	} while (scan.cursor);
	assert_int_equal(sum, 3000);
	assert_int_equal(stats_of(s).entries, 3000);
	assert_true(has_op(s, op("q:7")));
	/* The last one takes the table with it. */
	scan.prefix = SLICE("");
	do
		shared_scan(s, &scan, NULL, NULL);
	while (scan.cursor);
	assert_int_equal(stats_of(s).entries, 0);
	shared_scan(s, &scan, NULL, NULL);
	assert_int_equal(scan.cursor, 0);
	shared_destroy(s);
}

TEST_THAT(counters_with_labels_are_counted_by_name)
{
	struct shared *s = shared_create(0, 0);
	static const char *const names[] = { "n", "n{a=\"1\"}", "n{a=\"2\"}",
					     "m{a=\"1\"}" };

	for (int i = 0; i < 4; i++) {
		struct shared_op o = op(names[i]);

		o.space = SHARED_COUNTERS;
		o.must_exist = true;
		struct shared_value one = integer(1), sum;
		struct error err;
		assert_int_equal(shared_incr(s, &o, &one, &sum, &err), TIDE_EMPTY);
		o.must_exist = false;
		assert_int_equal(shared_incr(s, &o, &one, &sum, &err), TIDE_OK);
	}
	assert_int_equal(shared_count_family(s, SLICE("n")), 2);
	assert_int_equal(shared_count_labelled(s), 3);
	assert_int_equal(shared_restore(s, SLICE("c:n{a=\"3\"}"), SLICE("0 i3")),
			 TIDE_OK);
	assert_int_equal(shared_count_family(s, SLICE("n")), 3);
	struct shared_op gone = op("n{a=\"1\"}");
	gone.space = SHARED_COUNTERS;
	assert_true(shared_remove(s, &gone));
	assert_int_equal(shared_count_family(s, SLICE("n")), 2);
	shared_destroy(s);
}

TEST_THAT(bytes_are_shared_out_too)
{
	struct shared *s = shared_create(0, 10000);
	char large[2000] = "";
	memset(large, 'x', sizeof(large) - 1);
	assert_int_equal(set_op(s, by("a.lua", "/", "1"), text(large)), TIDE_OK);
	assert_int_equal(set_op(s, by("a.lua", "/", "2"), text(large)), TIDE_OK);
	assert_int_equal(set_op(s, by("a.lua", "/", "3"), text(large)), TIDE_OK);
	assert_int_equal(set_op(s, by("a.lua", "/", "4"), text(large)), TIDE_ELIMIT);
	/* An entry that grows is new for what it grows by. */
	assert_int_equal(set_op(s, by("a.lua", "/", "5"), integer(1)), TIDE_OK);
	assert_int_equal(set_op(s, by("a.lua", "/", "5"), text(large)), TIDE_ELIMIT);
	assert_int_equal(set_op(s, by("b.lua", "/", "6"), text(large)), TIDE_OK);
	shared_destroy(s);
}

/* Nobody knows who made what a former process has left; who changes it pays. */
TEST_THAT(what_comes_back_is_charged_when_it_changes)
{
	struct shared *s = shared_create(10, 0);
	size_t entries = 0;
	assert_int_equal(shared_restore(s, SLICE("k:old"), SLICE("0 i1")), TIDE_OK);
	shared_each_payer(s, count_entries, &entries);
	assert_int_equal(entries, 0);
	assert_int_equal(incr_op(s, by("a.lua", "/", "old"), 1), 2);
	shared_each_payer(s, count_entries, &entries);
	assert_int_equal(entries, 1);
	shared_destroy(s);
}

RUN_TESTS()
