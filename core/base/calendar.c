#include "calendar.h"

#include <ctype.h>
#include <endian.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "mem.h"

#define HEADER_LEN 44
#define TYPE_LEN 6
#define DAY (INT64_C(24) * 3600)
#define OFFSET_MAX (26 * 3600)
#define RULE_HOURS_MAX 167 /* RFC 8536, section 3.3.1 */

/* When the clocks change each year, as POSIX writes it in TZ. */
enum rule_kind {
	RULE_WEEKDAY, /* Mm.w.d */
	RULE_JULIAN,  /* Jn: 1 to 365, the 29th of February is none */
	RULE_DAY,     /* n: 0 to 365 */
};

struct zone_rule {
	enum rule_kind kind;
	int month, week, day;
	int64_t time; /* of the day, what the clocks show before */
};

struct zone_change {
	int64_t utc;
	struct zone_offset offset; /* from then on */
};

struct zone {
	struct zone_offset first; /* before all changes */
	/* After them: the same each year; without rules `standard` for ever. */
	struct zone_offset standard, summer;
	bool has_rules;
	struct zone_rule begin, end; /* of the summer */
	size_t count;
	struct zone_change changes[];
};

/* ---- the years to come: the footer of the file */

static bool take(struct slice *text, char c)
{
	if (text->len == 0 || text->data[0] != c)
		return false;
	*text = slice_skip(*text, 1);
	return true;
}

/* Digits: a number up to `max`. */
static bool take_number(struct slice *text, int max, int *out)
{
	int digits = 0;

	for (*out = 0; text->len && isdigit((unsigned char)text->data[0]); digits++) {
		*out = *out * 10 + text->data[0] - '0';
		if (*out > max)
			return false;
		*text = slice_skip(*text, 1);
	}
	return digits > 0;
}

/* "CET", "<+03>" */
static bool take_name(struct slice *text)
{
	bool is_quoted = take(text, '<');
	size_t len = 0;

	while (len < text->len && (is_quoted ? text->data[len] != '>'
					     : isalpha((unsigned char)text->data[len])))
		len++;
	*text = slice_skip(*text, len);
	return len > 0 && (!is_quoted || take(text, '>'));
}

/* [+-]h[h][:mm[:ss]] in seconds */
static bool take_time(struct slice *text, int hours_max, int64_t *out)
{
	bool is_negative = take(text, '-');
	int hours, minutes = 0, seconds = 0;

	if (!is_negative)
		take(text, '+');
	if (!take_number(text, hours_max, &hours))
		return false;
	if (take(text, ':') && !take_number(text, 59, &minutes))
		return false;
	if (take(text, ':') && !take_number(text, 59, &seconds))
		return false;
	*out = (int64_t)hours * 3600 + minutes * 60 + seconds;
	if (is_negative)
		*out = -*out;
	return true;
}

static bool take_rule(struct slice *text, struct zone_rule *r)
{
	bool is_day;

	*r = (struct zone_rule){ .kind = RULE_DAY, .time = 2 * 3600 };
	if (!take(text, ','))
		return false;
	if (take(text, 'M')) {
		r->kind = RULE_WEEKDAY;
		is_day = take_number(text, 12, &r->month) && r->month > 0 &&
			 take(text, '.') && take_number(text, 5, &r->week) &&
			 r->week > 0 && take(text, '.') && take_number(text, 6, &r->day);
	} else {
		if (take(text, 'J'))
			r->kind = RULE_JULIAN;
		is_day = take_number(text, 365, &r->day) &&
			 (r->day > 0 || r->kind == RULE_DAY);
	}
	return is_day && (!take(text, '/') || take_time(text, RULE_HOURS_MAX, &r->time));
}

/* "CET-1CEST,M3.5.0,M10.5.0/3"; west of Greenwich is positive. */
static bool read_footer(struct slice text, struct zone *z)
{
	int64_t standard, summer;

	if (!take_name(&text) || !take_time(&text, 24, &standard))
		return false;
	z->standard = (struct zone_offset){ (int32_t)-standard, false };
	if (text.len == 0)
		return true;
	summer = standard - 3600;
	if (!take_name(&text) ||
	    (text.len && text.data[0] != ',' && !take_time(&text, 24, &summer)))
		return false;
	z->summer = (struct zone_offset){ (int32_t)-summer, true };
	z->has_rules = true;
	return take_rule(&text, &z->begin) && take_rule(&text, &z->end) && text.len == 0;
}

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* The time of the clocks when the rule holds in this year. */
static int64_t local_of(const struct zone_rule *r, int64_t year)
{
	int64_t day = calendar_day((struct calendar_date){ year, 1, 1 });

	if (r->kind == RULE_DAY) {
		day += r->day;
	} else if (r->kind == RULE_JULIAN) {
		day += r->day - 1 + (r->day >= 60 && is_leap(year));
	} else {
		int64_t next =
			calendar_day((struct calendar_date){ year, r->month + 1, 1 });
		day = calendar_day((struct calendar_date){ year, r->month, 1 });
		day += (r->day + 7 - calendar_weekday(day) % 7) % 7 + 7 * (r->week - 1);
		if (day >= next) /* week 5 is the last one */
			day -= 7;
	}
	return day * DAY + r->time;
}

static struct zone_offset offset_by_rules(const struct zone *z, int64_t utc)
{
	int64_t ignored;

	if (!z->has_rules)
		return z->standard;
	int64_t day = calendar_floor(utc + z->standard.seconds, DAY, &ignored);
	int64_t year = calendar_date_of(day).year;
	int64_t begin = local_of(&z->begin, year) - z->standard.seconds;
	int64_t end = local_of(&z->end, year) - z->summer.seconds;
	bool is_summer =
		begin < end ? utc >= begin && utc < end : utc >= begin || utc < end;
	return is_summer ? z->summer : z->standard;
}

/* ---- the file */

struct tzif {
	uint32_t utc_flags, standard_flags, leaps, changes, types, characters;
};

static uint32_t get_u32(const char *data)
{
	uint32_t n;

	memcpy(&n, data, sizeof(n));
	return be32toh(n);
}

static uint64_t get_u64(const char *data)
{
	uint64_t n;

	memcpy(&n, data, sizeof(n));
	return be64toh(n);
}

static bool read_header(struct slice *rest, struct tzif *out)
{
	if (rest->len < HEADER_LEN || !slice_has_prefix(*rest, "TZif") ||
	    rest->data[4] < '2')
		return false;
	const char *at = rest->data + 20;
	*out = (struct tzif){ get_u32(at),      get_u32(at + 4),  get_u32(at + 8),
			      get_u32(at + 12), get_u32(at + 16), get_u32(at + 20) };
	*rest = slice_skip(*rest, HEADER_LEN);
	/* The file is not as long as any of these, and their sum does not overflow. */
	return out->utc_flags <= ZONE_FILE_MAX && out->standard_flags <= ZONE_FILE_MAX &&
	       out->leaps <= ZONE_FILE_MAX && out->changes <= ZONE_FILE_MAX &&
	       out->types <= ZONE_FILE_MAX && out->characters <= ZONE_FILE_MAX;
}

static size_t data_len(const struct tzif *t, size_t time_len)
{
	return t->changes * (time_len + 1) + t->types * (size_t)TYPE_LEN + t->characters +
	       t->leaps * (time_len + 4) + t->standard_flags + t->utc_flags;
}

static bool read_type(const char *types, uint32_t n, struct zone_offset *out)
{
	const char *type = types + n * (size_t)TYPE_LEN;

	*out = (struct zone_offset){ (int32_t)get_u32(type), type[4] != 0 };
	return out->seconds >= -OFFSET_MAX && out->seconds <= OFFSET_MAX;
}

static bool read_changes(const struct tzif *t, const char *data, struct zone *z)
{
	const char *numbers = data + t->changes * (size_t)8,
		   *types = numbers + t->changes;

	if (t->types == 0 || !read_type(types, 0, &z->first))
		return false;
	z->standard = z->first;
	for (z->count = 0; z->count < t->changes; z->count++) {
		struct zone_change *c = &z->changes[z->count];
		unsigned char type = (unsigned char)numbers[z->count];

		c->utc = (int64_t)get_u64(data + z->count * 8);
		if (type >= t->types || !read_type(types, type, &c->offset) ||
		    (z->count > 0 && c->utc <= c[-1].utc))
			return false;
		z->standard = c->offset; /* unless the footer knows better */
	}
	return true;
}

/* The second part of the file, which has times of 64 bits. */
static bool read_zone(struct slice rest, const struct tzif *t, struct zone *z)
{
	if (!read_changes(t, rest.data, z))
		return false;
	rest = slice_skip(rest, data_len(t, 8));
	if (!take(&rest, '\n'))
		return false;
	struct slice footer = slice_cut(&rest, '\n');
	return footer.len == 0 || read_footer(footer, z);
}

int zone_parse(struct slice file, struct zone **out, struct error *err)
{
	struct slice rest = file;
	struct tzif t;
	struct zone *z = NULL;
	bool is_good = file.len <= ZONE_FILE_MAX && read_header(&rest, &t) &&
		       data_len(&t, 4) <= rest.len;

	if (is_good) {
		rest = slice_skip(rest, data_len(&t, 4));
		is_good = read_header(&rest, &t) && data_len(&t, 8) <= rest.len;
	}
	if (is_good && t.leaps > 0)
		return error_set(err, TIDE_ESYNTAX, "it counts leap seconds");
	if (is_good) {
		z = mem_zalloc(sizeof(*z) + t.changes * sizeof(z->changes[0]));
		is_good = read_zone(rest, &t, z);
	}
	if (is_good) {
		*out = z;
		return TIDE_OK;
	}
	zone_destroy(z);
	return error_set(err, TIDE_ESYNTAX,
			 "it is not a TZif file of version 2 or later");
}

struct zone *zone_utc(void)
{
	return mem_zalloc(sizeof(struct zone));
}

void zone_destroy(struct zone *z)
{
	mem_free(z);
}

struct zone_offset zone_offset_at(const struct zone *z, int64_t utc)
{
	size_t low = 0, high = z->count; /* the first change that is later */

	if (z->count == 0 || utc >= z->changes[z->count - 1].utc)
		return offset_by_rules(z, utc);
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (z->changes[middle].utc <= utc)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? z->changes[low - 1].offset : z->first;
}

/* The moment in (low, high] when the clocks change from `before`. */
static int64_t change_in(const struct zone *z, int64_t low, int64_t high, int32_t before)
{
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;

		if (zone_offset_at(z, middle).seconds == before)
			low = middle;
		else
			high = middle;
	}
	return high;
}

int64_t zone_utc_of(const struct zone *z, int64_t local)
{
	/* No clock is a day off UTC: one is earlier than the change near it, one later.
	 */
	int32_t before = zone_offset_at(z, local - DAY).seconds;
	int32_t after = zone_offset_at(z, local + DAY).seconds;

	if (zone_offset_at(z, local - before).seconds == before)
		return local - before;
	if (before >= after || zone_offset_at(z, local - after).seconds == after)
		return local - after;
	return change_in(z, local - after, local - before, before);
}

int64_t calendar_day(struct calendar_date date)
{
	struct tm tm = { .tm_year = (int)(date.year - 1900),
			 .tm_mon = date.month - 1,
			 .tm_mday = date.day };

	return timegm(&tm) / DAY;
}

struct calendar_date calendar_date_of(int64_t day)
{
	time_t seconds = (time_t)(day * DAY);
	struct tm tm = { 0 };

	gmtime_r(&seconds, &tm);
	return (struct calendar_date){ tm.tm_year + INT64_C(1900), tm.tm_mon + 1,
				       tm.tm_mday };
}

int calendar_weekday(int64_t day)
{
	int64_t since_monday;

	calendar_floor(day + 3, 7, &since_monday); /* 1970 began on a Thursday */
	return (int)since_monday + 1;
}

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
