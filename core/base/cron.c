#include "cron.h"

#include <string.h>
#include <strings.h>

#define MINUTE_MS INT64_C(60000)
#define DAY_MINUTES 1440

/* The 29th of February is never further away: 2096 to 2104. */
#define SEARCH_DAYS (9 * 366)

enum field { MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS, FIELD_COUNT };

static const char *const month_names[] = { "jan", "feb", "mar", "apr", "may",
					   "jun", "jul", "aug", "sep", "oct",
					   "nov", "dec", NULL };
static const char *const weekday_names[] = { "sun", "mon", "tue", "wed",
					     "thu", "fri", "sat", NULL };

static const struct {
	const char *what;
	unsigned min, max;
	const char *const *names; /* the first one is for `min` */
} fields[FIELD_COUNT] = {
	[MINUTES] = { "minute", 0, 59, NULL },
	[HOURS] = { "hour", 0, 23, NULL },
	[DAYS] = { "day of the month", 1, 31, NULL },
	[MONTHS] = { "month", 1, 12, month_names },
	[WEEKDAYS] = { "day of the week", 0, 7, weekday_names },
};

static const char *const macros[][2] = {
	{ "@hourly", "0 * * * *" },   { "@daily", "0 0 * * *" },
	{ "@midnight", "0 0 * * *" }, { "@weekly", "0 0 * * 0" },
	{ "@monthly", "0 0 1 * *" },  { "@yearly", "0 0 1 1 *" },
	{ "@annually", "0 0 1 1 *" },
};

static bool read_value(enum field f, struct slice text, unsigned *out)
{
	const char *const *names = fields[f].names;
	uint64_t n;

	for (unsigned i = 0; names && names[i]; i++) {
		if (text.len == 3 && strncasecmp(text.data, names[i], 3) == 0) {
			*out = fields[f].min + i;
			return true;
		}
	}
	if (!slice_to_uint(text, fields[f].max, &n) || n < fields[f].min)
		return false;
	*out = (unsigned)n;
	return true;
}

/* "*", "a", "a-b" */
static bool read_range(enum field f, struct slice text, bool has_step, unsigned *first,
		       unsigned *last)
{
	struct slice low = slice_cut(&text, '-');
	bool has_last = text.data > low.data + low.len;

	*first = fields[f].min;
	*last = f == WEEKDAYS ? 6 : fields[f].max;
	if (slice_is(low, "*"))
		return !has_last;
	if (!read_value(f, low, first))
		return false;
	if (has_last && !read_value(f, text, last))
		return false;
	if (!has_last && !has_step)
		*last = *first;
	return *first <= *last;
}

/* A range with or without a step. */
static bool read_element(enum field f, struct slice text, uint64_t *bits)
{
	struct slice range = slice_cut(&text, '/');
	bool has_step = text.data > range.data + range.len;
	uint64_t step = 1;
	unsigned first, last;

	if (has_step && (!slice_to_uint(text, 1000, &step) || step == 0))
		return false;
	if (!read_range(f, range, has_step, &first, &last))
		return false;
	for (unsigned n = first; n <= last; n += (unsigned)step)
		*bits |= UINT64_C(1) << (f == WEEKDAYS ? n % 7 : n);
	return true;
}

static int read_field(enum field f, struct slice text, uint64_t *bits, struct error *err)
{
	struct slice rest = text, element;

	*bits = 0;
	do {
		element = slice_cut(&rest, ',');
		if (!read_element(f, element, bits))
			return error_set(err, TIDE_ESYNTAX,
					 "'%" SLICE_FMT "' is not a valid %s: expected * "
					 "or numbers from %u to %u, as 1,5 or 1-5 or */5",
					 SLICE_ARG(text), fields[f].what, fields[f].min,
					 fields[f].max);
	} while (rest.data > element.data + element.len);
	return TIDE_OK;
}

static bool next_word(struct slice *text, struct slice *word)
{
	while (text->len && (text->data[0] == ' ' || text->data[0] == '\t'))
		*text = slice_skip(*text, 1);
	size_t len = 0;
	while (len < text->len && text->data[len] != ' ' && text->data[len] != '\t')
		len++;
	*word = (struct slice){ text->data, len };
	*text = slice_skip(*text, len);
	return len > 0;
}

static struct slice expand_macro(struct slice text)
{
	for (size_t i = 0; i < sizeof(macros) / sizeof(macros[0]); i++)
		if (slice_is(text, macros[i][0]))
			return slice_from(macros[i][1]);
	return text;
}

int cron_parse(struct slice text, struct cron *out, struct error *err)
{
	struct slice rest = expand_macro(text), words[FIELD_COUNT], more;
	uint64_t *const bits[FIELD_COUNT] = { &out->minutes, &out->hours, &out->days,
					      &out->months, &out->weekdays };

	for (int f = 0; f < FIELD_COUNT; f++)
		if (!next_word(&rest, &words[f]))
			return error_set(err, TIDE_ESYNTAX,
					 "'%" SLICE_FMT "' has %d fields; expected 5: "
					 "minute, hour, day, month, weekday",
					 SLICE_ARG(text), f);
	if (next_word(&rest, &more))
		return error_set(err, TIDE_ESYNTAX,
				 "'%" SLICE_FMT "' has more than 5 fields",
				 SLICE_ARG(text));
	for (int f = 0; f < FIELD_COUNT; f++) {
		int rc = read_field((enum field)f, words[f], bits[f], err);

		if (rc != TIDE_OK)
			return rc;
	}
	out->needs_both_days =
		words[DAYS].data[0] == '*' || words[WEEKDAYS].data[0] == '*';
	if (cron_next(out, 0) == 0)
		return error_set(err, TIDE_ESYNTAX,
				 "'%" SLICE_FMT "' never matches a date",
				 SLICE_ARG(text));
	return TIDE_OK;
}

/* Month and day of a day since 1970, in the Gregorian calendar. Years are
 * counted from March, so that a leap day is the last of its year. */
static void date_of(int64_t day, unsigned *month, unsigned *day_of_month)
{
	int64_t from_0000 = day + 719468; /* 1 March 0000 is day 0 */
	int64_t of_era = from_0000 % 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t from_march = (5 * of_year + 2) / 153;

	*day_of_month = (unsigned)(of_year - (153 * from_march + 2) / 5 + 1);
	*month = (unsigned)(from_march < 10 ? from_march + 3 : from_march - 9);
}

static bool has(uint64_t bits, unsigned n)
{
	return bits >> n & 1;
}

static bool is_day(const struct cron *c, int64_t day)
{
	unsigned month, day_of_month;

	date_of(day, &month, &day_of_month);
	bool is_date = has(c->days, day_of_month);
	bool is_weekday = has(c->weekdays, (unsigned)((day + 4) % 7)); /* a Thursday */
	return has(c->months, month) &&
	       (c->needs_both_days ? is_date && is_weekday : is_date || is_weekday);
}

static bool is_minute(const struct cron *c, int minute)
{
	return has(c->hours, (unsigned)minute / 60) &&
	       has(c->minutes, (unsigned)minute % 60);
}

/* The first minute that fits from `minute` on, in steps of 1 or -1; 0 when there is none
 * within SEARCH_DAYS. */
static int64_t search(const struct cron *c, int64_t minute, int step)
{
	int64_t day = minute / DAY_MINUTES;
	int of_day = (int)(minute % DAY_MINUTES);

	for (int i = 0; i < SEARCH_DAYS && day >= 0; i++, day += step) {
		if (is_day(c, day))
			for (; of_day >= 0 && of_day < DAY_MINUTES; of_day += step)
				if (is_minute(c, of_day))
					return (day * DAY_MINUTES + of_day) * MINUTE_MS;
		of_day = step > 0 ? 0 : DAY_MINUTES - 1;
	}
	return 0;
}

int64_t cron_next(const struct cron *c, int64_t after_unix_ms)
{
	return search(c, after_unix_ms / MINUTE_MS + 1, 1);
}

int64_t cron_prev(const struct cron *c, int64_t at_unix_ms)
{
	return search(c, at_unix_ms / MINUTE_MS, -1);
}
