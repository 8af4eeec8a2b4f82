/* cron.h: times as crontab(5) writes them: minute, hour, day of the month, month, day of
 * the week. They are what the clocks of a time zone show, or UTC.
 *
 * A field is a list, with commas, of "*", "a" and "a-b", each with an optional step "/n".
 * "a/n" goes from a to the end. Months and weekdays may be the first three letters of
 * their names; Sunday is 0 and 7. One of the two days is enough, unless one of them
 * begins with "*". "@hourly", "@daily", "@weekly", "@monthly", "@yearly" are known too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "slice.h"
#include "zone.h"

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
