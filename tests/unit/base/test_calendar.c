
#include "check.h"

#include <time.h>

#include "base/calendar.h"

TEST_THAT(a_day_and_its_date_belong_together)
{
	for (int64_t day = -720000; day < 2940000; day++) {
		struct calendar_date date = calendar_date_of(day);

		assert_true(calendar_day(date) == day);
		if (day % 97)
			continue;
		time_t t = (time_t)day * 86400;
		struct tm tm;
		assert_non_null(gmtime_r(&t, &tm));
		assert_int_equal(date.year, tm.tm_year + 1900);
		assert_int_equal(date.month, tm.tm_mon + 1);
		assert_int_equal(date.day, tm.tm_mday);
		assert_int_equal(calendar_weekday(day) % 7, tm.tm_wday);
	}
}

TEST_THAT(months_and_days_count_on)
{
	int64_t day = calendar_day((struct calendar_date){ 2027, 1, 1 });

	assert_true(calendar_day((struct calendar_date){ 2026, 13, 1 }) == day);
	assert_true(calendar_day((struct calendar_date){ 2028, -11, 1 }) == day);
	assert_true(calendar_day((struct calendar_date){ 2026, 12, 32 }) == day);
	assert_true(calendar_day((struct calendar_date){ 2027, 2, -30 }) == day);
}

RUN_TESTS()
