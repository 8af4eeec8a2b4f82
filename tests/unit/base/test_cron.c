
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/calendar.h"

/* "2026-11-21 10:00:30", UTC, in ms. */
static int64_t at(const char *text)
{
	struct tm tm = { .tm_sec = 0 };
	if (sscanf(text, "%d-%d-%d %d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &tm.tm_hour, &tm.tm_min, &tm.tm_sec) < 5)
		fail_msg("no time: %s", text);
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return (int64_t)timegm(&tm) * 1000;
}

static const char *show(int64_t ms)
{
	static char text[32];
	time_t t = (time_t)(ms / 1000);
	struct tm tm;
	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
	return text;
}

static struct cron parse(const char *text)
{
	struct cron c;
	struct error err;
	if (cron_parse(slice_from(text), &c, &err) != TIDE_OK)
		fail_msg("%s: %s", text, err.text);
	return c;
}

static const struct {
	const char *cron, *from, *next;
} ticks[] = {
	{ "* * * * *", "2026-11-21 10:00", "2026-11-21 10:01" },
	{ "* * * * *", "2026-11-21 10:00:59", "2026-11-21 10:01" },
	{ "*/5 * * * *", "2026-11-21 10:00", "2026-11-21 10:05" },
	{ "*/7 * * * *", "2026-11-21 10:56", "2026-11-21 11:00" },
	{ "3/20 * * * *", "2026-11-21 10:00", "2026-11-21 10:03" },
	{ "3/20 * * * *", "2026-11-21 10:43", "2026-11-21 11:03" },
	{ "10-20/5 * * * *", "2026-11-21 10:15", "2026-11-21 10:20" },
	{ "10-20/5 * * * *", "2026-11-21 10:20", "2026-11-21 11:10" },
	{ "0,30,45 9-17 * * *", "2026-11-21 17:45", "2026-11-22 09:00" },
	{ "59 23 31 12 *", "2026-11-21 10:00", "2026-12-31 23:59" },
	{ "0 0 1 1 *", "2026-12-31 23:59:59", "2027-01-01 00:00" },
	/* Hours that clocks elsewhere leave out or repeat: UTC does neither. */
	{ "30 2 * * *", "2026-03-29 01:00", "2026-03-29 02:30" },
	{ "30 2 * * *", "2026-10-25 02:30", "2026-10-26 02:30" },
	/* Months of other lengths, leap years, the year that was none. */
	{ "0 0 31 * *", "2026-01-31 00:00", "2026-03-31 00:00" },
	{ "0 0 30 * *", "2026-01-30 00:00", "2026-03-30 00:00" },
	{ "0 0 29 2 *", "2026-11-21 00:00", "2028-02-29 00:00" },
	{ "0 0 29 feb *", "2096-02-29 00:00", "2104-02-29 00:00" },
	{ "0 0 28-31 2 *", "2028-02-28 00:00", "2028-02-29 00:00" },
	{ "0 0 29 2 *", "1999-12-31 00:00", "2000-02-29 00:00" },
	/* Weekdays: 21 November 2026 is a Saturday. */
	{ "0 6 * * mon-fri", "2026-11-21 06:00", "2026-11-23 06:00" },
	{ "0 6 * * MON", "2026-11-23 06:00", "2026-11-30 06:00" },
	{ "0 6 * * 0", "2026-11-21 06:00", "2026-11-22 06:00" },
	{ "0 6 * * 7", "2026-11-21 06:00", "2026-11-22 06:00" },
	{ "0 6 * * sat,sun", "2026-11-21 06:00", "2026-11-22 06:00" },
	{ "0 6 * * 5-7", "2026-11-22 06:00", "2026-11-27 06:00" },
	{ "0 6 * * 1/2", "2026-11-21 06:00", "2026-11-23 06:00" },
	{ "0 6 * Jan,Mar-May *", "2026-01-31 06:00", "2026-03-01 06:00" },
	/* Either of the days is enough when both are given, both are wanted else. */
	{ "0 0 13 * fri", "2026-11-21 00:00", "2026-11-27 00:00" },
	{ "0 0 13 * fri", "2026-12-12 00:00", "2026-12-13 00:00" },
	{ "0 0 */2 * mon", "2026-11-21 00:00", "2026-11-23 00:00" },
	{ "0 0 */2 * mon", "2026-11-23 00:00", "2026-12-07 00:00" },
	{ "  0   0\t* * *  ", "2026-11-21 10:00", "2026-11-22 00:00" },
	{ "@hourly", "2026-11-21 10:00", "2026-11-21 11:00" },
	{ "@daily", "2026-11-21 10:00", "2026-11-22 00:00" },
	{ "@weekly", "2026-11-21 10:00", "2026-11-22 00:00" },
	{ "@monthly", "2026-11-21 10:00", "2026-12-01 00:00" },
	{ "@yearly", "2026-11-21 10:00", "2027-01-01 00:00" },
};

TEST_THAT(the_next_tick_is_the_first_minute_that_matches)
{
	for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
		struct cron c = parse(ticks[i].cron);
		int64_t next = cron_next(&c, NULL, at(ticks[i].from));
		if (next != at(ticks[i].next))
			fail_msg("%s after %s: %s, not %s", ticks[i].cron, ticks[i].from,
				 show(next), ticks[i].next);
	}
}

TEST_THAT(the_last_tick_is_the_one_that_next_would_give)
{
	for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
		struct cron c = parse(ticks[i].cron);
		int64_t next = at(ticks[i].next);
		assert_true(cron_prev(&c, NULL, next) == next);
		assert_true(cron_prev(&c, NULL, next + 59999) == next);
		int64_t before = cron_prev(&c, NULL, next - 1);
		assert_true(before <= at(ticks[i].from));
		assert_true(cron_next(&c, NULL, before) == next);
	}
}

TEST_THAT(a_year_of_ticks_is_complete_both_ways)
{
	struct cron c = parse("0 12 29-31 * wed");
	int64_t t = at("2027-12-31 23:59");
	int64_t end = at("2029-01-01 00:00");
	unsigned count = 0, back = 0;
	while ((t = cron_next(&c, NULL, t)) < end) {
		time_t seconds = (time_t)(t / 1000);
		struct tm tm;
		gmtime_r(&seconds, &tm);
		assert_true(tm.tm_mday >= 29 || tm.tm_wday == 3);
		count++;
	}
	for (t = end; (t = cron_prev(&c, NULL, t - 1)) >= at("2028-01-01 00:00");)
		back++;
	assert_int_equal(count, back);
	unsigned expected = 0;
	for (t = at("2028-01-01 12:00"); t < end; t += 86400000) {
		time_t seconds = (time_t)(t / 1000);
		struct tm tm;
		gmtime_r(&seconds, &tm);
		expected += tm.tm_mday >= 29 || tm.tm_wday == 3;
	}
	assert_int_equal(count, expected);
}

TEST_THAT(what_is_no_cron_line_is_refused_with_its_field)
{
	static const struct {
		const char *cron, *says;
	} wrong[] = {
		{ "", "has 0 fields" },
		{ "* * * *", "has 4 fields" },
		{ "* * * * * *", "more than 5" },
		{ "60 * * * *", "'60' is not a valid minute" },
		{ "* 24 * * *", "'24' is not a valid hour" },
		{ "* * 0 * *", "'0' is not a valid day of the month" },
		{ "* * 32 * *", "'32' is not a valid day of the month" },
		{ "* * * 13 *", "'13' is not a valid month" },
		{ "* * * jann *", "'jann' is not a valid month" },
		{ "* * * * 8", "'8' is not a valid day of the week" },
		{ "* * * * jan", "'jan' is not a valid day of the week" },
		{ "5-1 * * * *", "'5-1' is not a valid minute" },
		{ "*/0 * * * *", "'*/0' is not a valid minute" },
		{ "*/ * * * *", "is not a valid minute" },
		{ "1,,2 * * * *", "is not a valid minute" },
		{ "1, * * * *", "is not a valid minute" },
		{ "-1 * * * *", "is not a valid minute" },
		{ "1-2-3 * * * *", "is not a valid minute" },
		{ "? * * * *", "is not a valid minute" },
		{ "*1 * * * *", "is not a valid minute" },
		{ "@reboot", "has 1 fields" },
		{ "0 0 30 2 *", "never matches" },
		{ "0 0 31 4,6,9,11 *", "never matches" },
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct cron c;
		struct error err;
		assert_int_equal(cron_parse(slice_from(wrong[i].cron), &c, &err),
				 TIDE_ESYNTAX);
		if (!strstr(err.text, wrong[i].says))
			fail_msg("'%s': %s", wrong[i].cron, err.text);
	}
}

RUN_TESTS()
