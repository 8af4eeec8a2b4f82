#include "cron.h"

#include <string.h>
#include <strings.h>

#include "calendar.h"

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
	if (cron_next(out, NULL, 0) == 0)
		return error_set(err, TIDE_ESYNTAX,
				 "'%" SLICE_FMT "' never matches a date",
				 SLICE_ARG(text));
	return TIDE_OK;
}

static bool has(uint64_t bits, unsigned n)
{
	return bits >> n & 1;
}

static bool is_day(const struct cron *c, int64_t day)
{
	struct calendar_date date = calendar_date_of(day);
	bool is_date = has(c->days, (unsigned)date.day);
	bool is_weekday = has(c->weekdays, (unsigned)calendar_weekday(day) % 7);
	return has(c->months, (unsigned)date.month) &&
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

/* When the clocks of the zone show the minute of a tick. */
static int64_t moment(const struct zone *zone, int64_t tick_ms)
{
	return zone ? zone_utc_of(zone, tick_ms / 1000) * 1000 : tick_ms;
}

static int64_t offset_ms(const struct zone *zone, int64_t utc_ms)
{
	return zone ? zone_offset_at(zone, utc_ms / 1000).seconds * INT64_C(1000) : 0;
}

/* Does the schedule run in the hours before and after that of the tick, too? Then its
 * ticks have a distance, which no clock changes. */
static bool is_in_series(const struct cron *c, int64_t tick_ms)
{
	unsigned hour = (unsigned)(tick_ms / MINUTE_MS % DAY_MINUTES / 60);

	return has(c->hours, (hour + 23) % 24) && has(c->hours, (hour + 1) % 24);
}

/* The clocks skip the tick, and what comes in its place is the next of its series. */
static bool is_left_out(const struct cron *c, const struct zone *zone, int64_t tick_ms)
{
	int64_t utc_ms = moment(zone, tick_ms);

	return utc_ms + offset_ms(zone, utc_ms) != tick_ms && is_in_series(c, tick_ms);
}

/* Clocks with this offset show the tick of a series for the second time. */
static bool comes_again(const struct cron *c, const struct zone *zone, int64_t tick_ms,
			int64_t offset)
{
	return is_in_series(c, tick_ms) && moment(zone, tick_ms) < tick_ms - offset &&
	       offset_ms(zone, tick_ms - offset) == offset;
}

int64_t cron_next(const struct cron *c, const struct zone *zone, int64_t after_unix_ms)
{
	int64_t local_ms = after_unix_ms + offset_ms(zone, after_unix_ms);
	int64_t tick_ms = search(c, local_ms / MINUTE_MS + 1, 1);

	while (tick_ms &&
	       (moment(zone, tick_ms) <= after_unix_ms || is_left_out(c, zone, tick_ms)))
		tick_ms = search(c, tick_ms / MINUTE_MS + 1, 1);
	if (!tick_ms)
		return 0;
	int64_t next_ms = moment(zone, tick_ms), offset = offset_ms(zone, next_ms);
	tick_ms = search(c, (after_unix_ms + offset) / MINUTE_MS + 1, 1);
	for (; tick_ms && tick_ms - offset < next_ms;
	     tick_ms = search(c, tick_ms / MINUTE_MS + 1, 1))
		if (comes_again(c, zone, tick_ms, offset))
			return tick_ms - offset;
	return next_ms;
}

/* The clocks may have shown a later time some hours ago. */
int64_t cron_prev(const struct cron *c, const struct zone *zone, int64_t at_unix_ms)
{
	int64_t offset = offset_ms(zone, at_unix_ms);
	int64_t day_ago_ms = offset_ms(zone, at_unix_ms - DAY_MINUTES * MINUTE_MS);
	int64_t local_ms = at_unix_ms + (offset > day_ago_ms ? offset : day_ago_ms);
	int64_t tick_ms = search(c, local_ms / MINUTE_MS, -1), prev_ms;

	while (tick_ms &&
	       (moment(zone, tick_ms) > at_unix_ms || is_left_out(c, zone, tick_ms)))
		tick_ms = search(c, tick_ms / MINUTE_MS - 1, -1);
	prev_ms = tick_ms ? moment(zone, tick_ms) : 0;
	tick_ms = search(c, (at_unix_ms + offset) / MINUTE_MS, -1);
	for (; tick_ms && tick_ms - offset > prev_ms;
	     tick_ms = search(c, tick_ms / MINUTE_MS - 1, -1))
		if (comes_again(c, zone, tick_ms, offset))
			return tick_ms - offset;
	return prev_ms;
}
