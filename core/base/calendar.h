/* calendar.h: days of the Gregorian calendar, also before it was in use, as numbers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "slice.h"

/* A time zone: what clocks show where, from the text of a TZif file (RFC 8536).
 *
 * A zone does not change once it is parsed. Times are in seconds since 1970; a local time
 * is what the clocks show, counted as if it were UTC. Not from glibc: its time zone is
 * one for the whole process. */
#define ZONE_FILE_MAX ((size_t)64 * 1024)

struct zone;

struct zone_offset {
	int32_t seconds; /* to add to UTC */
	bool is_dst;
};

/* TIDE_ESYNTAX: this is not a TZif file of version 2 or later, or it counts leap seconds.
 */
TIDE_MUST_USE int zone_parse(struct slice file, struct zone **out, struct error *err);
struct zone *zone_utc(void);
/* Accepts NULL. */
void zone_destroy(struct zone *z);

struct zone_offset zone_offset_at(const struct zone *z, int64_t utc);

/* When the clocks show this local time. If they do so twice: the first time. If they skip
 * it: when they are put forward. So a later local time is never an earlier moment. */
int64_t zone_utc_of(const struct zone *z, int64_t local);

struct calendar_date {
	int64_t year;
	int month; /* 1 to 12 */
	int day;   /* 1 to 31 */
};

/* Days since 1970. A month or day outside of its range counts on: month 13 is January of
 * the next year, day 0 the last one of the month before. */
int64_t calendar_day(struct calendar_date date);
struct calendar_date calendar_date_of(int64_t day);

/* 1: Monday, to 7: Sunday (ISO 8601). */
int calendar_weekday(int64_t day);

/* a / b and what is left, rounded down for negative numbers too. */
static inline int64_t calendar_floor(int64_t a, int64_t b, int64_t *rest)
{
	int64_t left = a % b;

	*rest = left < 0 ? left + b : left;
	return (a - *rest) / b;
}

/* Times as crontab(5) writes them: minute, hour, day of the month, month, day of
 * the week. They are what the clocks of a time zone show, or UTC.
 *
 * A field is a list, with commas, of "*", "a" and "a-b", each with an optional step "/n".
 * "a/n" goes from a to the end. Months and weekdays may be the first three letters of
 * their names; Sunday is 0 and 7. One of the two days is enough, unless one of them
 * begins with "*". "@hourly", "@daily", "@weekly", "@monthly", "@yearly" are known too.
 */
struct cron {
	uint64_t minutes; /* bit n: it may be n */
	uint64_t hours;
	uint64_t days;     /* 1 to 31 */
	uint64_t months;   /* 1 to 12 */
	uint64_t weekdays; /* 0 to 6 */
	bool needs_both_days;
};

/* TIDE_ESYNTAX with a sentence that names the field; a date that never comes (the
 * 30th of February) is refused too. */
TIDE_MUST_USE int cron_parse(struct slice text, struct cron *out, struct error *err);

/* The first tick after that time, the last one at or before it; both in ms since 1970. 0
 * when there is none within nine years.
 *
 * A tick in the hour that clocks skip comes when they are put forward. Several of them,
 * and one of that very minute, are one. A tick in the hour that clocks show twice comes
 * the first time. Not so if the cron has the hours before and after, too: its ticks go by
 * real time. Those that clocks skip are left out, and those that they show twice come
 * twice.
 *
 * @param zone  NULL: UTC, in which no hour is skipped or comes twice */
int64_t cron_next(const struct cron *c, const struct zone *zone, int64_t after_unix_ms);
int64_t cron_prev(const struct cron *c, const struct zone *zone, int64_t at_unix_ms);
