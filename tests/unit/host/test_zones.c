
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/calendar.h"
#include "host/zones.h"

static struct zones zones;

static const struct zone *get(const char *name)
{
	struct error err;
	const struct zone *z = zones_get(&zones, slice_from(name), &err);

	if (!z)
		fail_msg("%s: %s", name, err.text);
	return z;
}

/* "2026-03-29 02:30", in seconds as if it were UTC. */
static int64_t seconds(const char *text)
{
	int year, month, day, hour, minute;

	if (sscanf(text, "%d-%d-%d %d:%d", &year, &month, &day, &hour, &minute) != 5)
		fail_msg("no time: %s", text);
	return calendar_day((struct calendar_date){ year, month, day }) * 86400 +
	       hour * 3600 + minute * 60;
}

static const char *const names[] = {
	"Europe/Berlin",
	"America/New_York",
	"America/Sao_Paulo",
	"Australia/Lord_Howe",
	"Africa/Casablanca",
	"Asia/Kolkata",
	"Asia/Kathmandu",
	"Pacific/Apia",
	"Pacific/Auckland",
	"America/St_Johns",
	"Antarctica/Troll",
	"America/Nuuk",
	"Africa/El_Aaiun",
	"Asia/Jerusalem",
	"Europe/Dublin",
	"Etc/GMT+5",
	"UTC",
	"America/Santiago",
	"Pacific/Kiritimati",
	"Asia/Gaza",
};

/* glibc, which has one time zone at a time, is asked for all of them. */
TEST_THAT(clocks_show_what_glibc_says)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct zone *z = get(names[i]);

		setenv("TZ", names[i], 1);
		tzset();
		/* 1881 to 2200; the step is prime, so that all hours are met. */
		for (time_t t = -2800000000; t < 7258000000; t += 54001) {
			struct tm tm;
			assert_non_null(localtime_r(&t, &tm));
			struct zone_offset o = zone_offset_at(z, t);
			if (o.seconds != tm.tm_gmtoff || o.is_dst != (tm.tm_isdst > 0))
				fail_msg("%s at %lld: %d %d, not %ld %d", names[i],
					 (long long)t, o.seconds, o.is_dst, tm.tm_gmtoff,
					 tm.tm_isdst);
		}
	}
}

/* The first moment whose clocks show the time, or the moment at which they skip it. */
TEST_THAT(a_local_time_is_the_first_moment_that_shows_it)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct zone *z = get(names[i]);
		int64_t begin = seconds("2025-12-01 00:00"), before = INT64_MIN;

		for (int64_t local = begin; local < begin + 86400 * 730; local += 900) {
			int64_t utc = zone_utc_of(z, local);
			int64_t shown = utc + zone_offset_at(z, utc).seconds;
			int64_t earlier = utc - 3600;

			assert_true(utc >= before);
			before = utc;
			if (shown == local) {
				assert_true(earlier +
						    zone_offset_at(z, earlier).seconds !=
					    local);
				continue;
			}
			/* Skipped: just before, the clocks showed an earlier time. */
			assert_true(shown > local);
			assert_true(utc - 1 + zone_offset_at(z, utc - 1).seconds < local);
		}
	}
}

static const struct {
	const char *zone, *local, *utc;
} moments[] = {
	{ "Europe/Berlin", "2026-03-29 01:59", "2026-03-29 00:59" },
	{ "Europe/Berlin", "2026-03-29 02:00", "2026-03-29 01:00" },
	{ "Europe/Berlin", "2026-03-29 02:30", "2026-03-29 01:00" },
	{ "Europe/Berlin", "2026-03-29 03:00", "2026-03-29 01:00" },
	{ "Europe/Berlin", "2026-10-25 02:30", "2026-10-25 00:30" },
	{ "Europe/Berlin", "2026-10-25 03:00", "2026-10-25 02:00" },
	{ "Europe/Berlin", "2099-07-01 12:00", "2099-07-01 10:00" },
	{ "America/New_York", "2026-03-08 02:30", "2026-03-08 07:00" },
	{ "Australia/Lord_Howe", "2026-10-04 02:15", "2026-10-03 15:30" },
	{ "Pacific/Apia", "2011-12-30 12:00",
	  "2011-12-30 10:00" }, /* a day that was none */
};

TEST_THAT(clocks_that_change_skip_times_or_show_them_twice)
{
	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++)
		if (zone_utc_of(get(moments[i].zone), seconds(moments[i].local)) !=
		    seconds(moments[i].utc))
			fail_msg("%s %s", moments[i].zone, moments[i].local);
}

/* All ticks between two times, forwards; backwards must give the same. */
static void expect_ticks(const char *cron, const char *zone, const char *from,
			 const char *to, const char *expected)
{
	const struct zone *z = get(zone);
	char found[512] = "";
	struct cron c;
	struct error err;
	int64_t tick = seconds(from) * 1000 - 1, end = seconds(to) * 1000, before;

	assert_int_equal(cron_parse(slice_from(cron), &c, &err), TIDE_OK);
	while (before = tick, (tick = cron_next(&c, z, tick)) < end) {
		char text[32];
		time_t t = (time_t)(tick / 1000);
		struct tm tm;

		strftime(text, sizeof(text), " %d.%H:%M", gmtime_r(&t, &tm));
		strcat(found, text);
		assert_true(cron_prev(&c, z, tick) == tick);
		for (int64_t at = before; at >= seconds(from) * 1000 && at < tick;
		     at += 60000)
			assert_true(cron_prev(&c, z, at) == before);
		assert_true(cron_next(&c, z, cron_prev(&c, z, tick - 1)) == tick);
	}
	assert_string_equal(found, expected);
}

TEST_THAT(ticks_follow_the_clocks)
{
	/* In UTC. The clocks in Berlin are put forward at 01:00 and back at 01:00. */
	expect_ticks("0 6 * * *", "Europe/Berlin", "2026-03-28 00:00", "2026-03-31 00:00",
		     " 28.05:00 29.04:00 30.04:00");
	/* In the hour that is skipped: when the clocks are put forward. */
	expect_ticks("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00",
		     "2026-03-31 00:00", " 28.01:30 29.01:00 30.00:30");
	expect_ticks("*/20 2 * * *", "Europe/Berlin", "2026-03-29 00:00",
		     "2026-03-30 00:00", " 29.01:00");
	expect_ticks("*/30 * * * *", "Europe/Berlin", "2026-03-29 00:00",
		     "2026-03-29 02:30", " 29.00:00 29.00:30 29.01:00 29.01:30 29.02:00");
	expect_ticks("15 * * * *", "Europe/Berlin", "2026-03-28 23:30",
		     "2026-03-29 02:30", " 29.00:15 29.01:15 29.02:15");
	expect_ticks("0 */2 * * *", "Europe/Berlin", "2026-03-28 23:00",
		     "2026-03-29 05:00", " 28.23:00 29.01:00 29.02:00 29.04:00");
	/* In the hour that comes twice: the first time, or by real time. */
	expect_ticks("30 2 * * *", "Europe/Berlin", "2026-10-24 00:00",
		     "2026-10-27 00:00", " 24.00:30 25.00:30 26.01:30");
	expect_ticks("*/30 * * * *", "Europe/Berlin", "2026-10-24 23:30",
		     "2026-10-25 03:00",
		     " 24.23:30 25.00:00 25.00:30 25.01:00 25.01:30 25.02:00 25.02:30");
	expect_ticks("@hourly", "Europe/Berlin", "2026-10-24 23:00", "2026-10-25 03:30",
		     " 24.23:00 25.00:00 25.01:00 25.02:00 25.03:00");
	expect_ticks("*/20 1-3 * * sun", "Europe/Berlin", "2026-10-24 00:00",
		     "2026-10-26 00:00",
		     " 24.23:00 24.23:20 24.23:40 25.00:00 25.00:20 25.00:40 25.01:00"
		     " 25.01:20 25.01:40 25.02:00 25.02:20 25.02:40");
	expect_ticks("*/30 2-3 * * *", "Europe/Berlin", "2026-10-25 00:00",
		     "2026-10-26 00:00", " 25.00:00 25.00:30 25.02:00 25.02:30");
	expect_ticks("0 */2 * * *", "Europe/Berlin", "2026-10-24 22:00",
		     "2026-10-25 05:00", " 24.22:00 25.00:00 25.03:00");
	expect_ticks("20 * * * sat", "America/Santiago", "2026-04-05 01:00",
		     "2026-04-06 00:00", " 05.01:20 05.02:20 05.03:20");
	expect_ticks("*/20 * * * *", "Australia/Lord_Howe", "2026-04-04 14:00",
		     "2026-04-04 16:00",
		     " 04.14:00 04.14:20 04.14:40 04.15:10 04.15:30 04.15:50");
	expect_ticks("0 9 * * mon", "America/New_York", "2026-10-30 00:00",
		     "2026-11-12 00:00", " 02.14:00 09.14:00");
	/* The day there begins on the day before in UTC. */
	expect_ticks("0 0 1 * *", "Asia/Tokyo", "2026-01-01 00:00", "2026-03-05 00:00",
		     " 31.15:00 28.15:00");
	expect_ticks("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00",
		     "2026-10-05 00:00", " 03.15:30 04.15:15");
}

static void expect_refused(const char *name, const char *sentence)
{
	struct error err;

	assert_null(zones_get(&zones, slice_from(name), &err));
	assert_string_equal(err.text, sentence);
}

static void write_file(const char *dir, const char *name, struct slice text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text.data, 1, text.len, file), text.len);
	assert_int_equal(fclose(file), 0);
}

TEST_THAT(what_is_no_zone_is_refused_with_a_sentence)
{
	char dir[] = "/tmp/test_zones.XXXXXX", path[256], sentence[256];
	static const char *const wrong[] = {
		"",    "/etc/passwd",    "../passwd", "Europe/", "Europe//Berlin",
		"a.b", "Europe/Berlin ", NULL
	};
	struct error err;

	for (size_t i = 0; wrong[i]; i++) {
		snprintf(sentence, sizeof(sentence),
			 "'%s' is not the name of a time zone, as Europe/Berlin is",
			 wrong[i]);
		expect_refused(wrong[i], sentence);
	}
	/* A zero byte ends a path, and would make each such name a zone of its own. */
	assert_null(zones_get(&zones, SLICE("UTC\0x"), &err));
	assert_string_equal(err.text,
			    "'UTC' is not the name of a time zone, as Europe/Berlin is");
	expect_refused("Europe/Berln", "there is no time zone 'Europe/Berln'");
	expect_refused("Europe", "there is no time zone 'Europe'");
	assert_non_null(mkdtemp(dir));
	setenv("TZDIR", dir, 1);
	write_file(dir, "Broken", SLICE("no TZif"));
	snprintf(sentence, sizeof(sentence),
		 "%s/Broken is not a time zone: it is not a TZif file of version 2 or "
		 "later",
		 dir);
	expect_refused("Broken", sentence);
	snprintf(path, sizeof(path), "%s/Broken", dir);
	unlink(path);
	rmdir(dir);
	snprintf(sentence, sizeof(sentence), "time zones need %s; install tzdata", dir);
	expect_refused("Asia/Seoul", sentence);
	assert_non_null(get("UTC"));
	assert_non_null(get("Europe/Berlin")); /* known already */
	unsetenv("TZDIR");
}

/* Each byte of a file changed, and each shorter file: refused, or a zone that answers. */
TEST_THAT(a_damaged_file_does_no_harm)
{
	static char text[ZONE_FILE_MAX];
	FILE *file = fopen("/usr/share/zoneinfo/Europe/Berlin", "r");
	struct error err;

	assert_non_null(file);
	size_t len = fread(text, 1, sizeof(text), file);
	fclose(file);
	for (size_t i = 0; i < 2 * len; i++) {
		struct zone *z = NULL;
		bool is_cut = i >= len;
		char *copy = malloc(len);

		memcpy(copy, text, len);
		copy[i % len] = (char)(copy[i % len] + 101);
		if (zone_parse((struct slice){ copy, is_cut ? i - len : len }, &z,
			       &err) == TIDE_OK) {
			zone_offset_at(z, 1800000000);
			zone_utc_of(z, 4000000000);
		}
		zone_destroy(z);
		free(copy);
	}
	memset(text, 0, 44);
	memcpy(text, "TZif2", 5);
	memset(text + 20, 0xff, 24);
	assert_int_equal(
		zone_parse((struct slice){ text, 2000 }, &(struct zone *){ NULL }, &err),
		TIDE_ESYNTAX);
}

static int forget(void **state)
{
	zones_deinit(&zones);
	return 0;
}

RUN_TESTS(.end = forget)
