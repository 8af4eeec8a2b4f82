/* cron.h: times as crontab(5) writes them: minute, hour, day of the month, month,
 * day of the week; in UTC, so that no hour is missing or comes twice.
 *
 * A field is "*", a number, a range "a-b", each perhaps with a step "/n", or a
 * list of these with commas; months and weekdays may be the first three letters
 * of their names; Sunday is 0 and 7. "a/n" is from a to the end in steps. When
 * neither day of the month nor day of the week begins with "*", one of them is
 * enough, as everywhere. "@hourly", "@daily", "@weekly", "@monthly", "@yearly"
 * stand for what they say. */
#ifndef TIDE_BASE_CRON_H
#define TIDE_BASE_CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "slice.h"

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

/* The first minute after that time, the last one at or before it; both in ms
 * since 1970. 0 when there is none within nine years. */
int64_t cron_next(const struct cron *c, int64_t after_unix_ms);
int64_t cron_prev(const struct cron *c, int64_t at_unix_ms);

#endif
