#include "calendar.h"

#define ERA_DAYS 146097 /* of 400 years */

/* Years are counted from March, so that a leap day is the last of its year. Day 0 is 1
 * March of the year 0. */
#define DAYS_TO_1970 719468

int64_t calendar_day(struct calendar_date date)
{
	int64_t from_march, of_era;
	int64_t year =
		date.year + calendar_floor(date.month + INT64_C(9), 12, &from_march) - 1;
	int64_t era = calendar_floor(year, 400, &of_era);

	return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 +
	       (153 * from_march + 2) / 5 + date.day - 1 - DAYS_TO_1970;
}

struct calendar_date calendar_date_of(int64_t day)
{
	int64_t of_era;
	int64_t era = calendar_floor(day + DAYS_TO_1970, ERA_DAYS, &of_era);
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t from_march = (5 * of_year + 2) / 153;

	return (struct calendar_date){
		.year = era * 400 + year + (from_march >= 10),
		.month = (int)(from_march < 10 ? from_march + 3 : from_march - 9),
		.day = (int)(of_year - (153 * from_march + 2) / 5 + 1),
	};
}

int calendar_weekday(int64_t day)
{
	int64_t since_monday;

	calendar_floor(day + 3, 7, &since_monday); /* 1970 began on a Thursday */
	return (int)since_monday + 1;
}
