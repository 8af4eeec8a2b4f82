/* calendar.h: days of the Gregorian calendar, also before it was in use, as numbers. */
#pragma once

#include <stdint.h>

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
