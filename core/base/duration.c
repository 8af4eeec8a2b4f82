#include "duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static const struct unit {
	const char *name;
	int64_t ms;
} units[] = {
	{ "d", INT64_C(24) * 3600 * 1000 },
	{ "h", 3600 * 1000 },
	{ "m", 60 * 1000 },
	{ "s", 1000 },
	{ "ms", 1 },
	{ "", 1 },
};

#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

int duration_parse(struct slice text, int64_t *out_ms)
{
	size_t digits = 0;

	while (digits < text.len && text.data[digits] >= '0' && text.data[digits] <= '9')
		digits++;
	struct slice number = { text.data, digits };
	struct slice name = { text.data + digits, text.len - digits };
	for (size_t i = 0; i < UNIT_COUNT; i++) {
		uint64_t n;

		if (!slice_is(name, units[i].name))
			continue;
		if (!slice_to_uint(number, (uint64_t)(DURATION_MAX_MS / units[i].ms), &n))
			return TIDE_ESYNTAX;
		*out_ms = (int64_t)n * units[i].ms;
		return TIDE_OK;
	}
	return TIDE_ESYNTAX;
}

void duration_format(int64_t ms, char out[DURATION_TEXT_MAX])
{
	size_t i = 0;

	if (ms == 0)
		i = 3; /* every unit is exact; seconds are the plain one */
	while (ms % units[i].ms != 0)
		i++;
	snprintf(out, DURATION_TEXT_MAX, "%" PRId64 "%s", ms / units[i].ms,
		 units[i].name);
}

bool duration_is_within(struct slice text, struct number_limits limits, int64_t *out_ms)
{
	int64_t ms;

	if (duration_parse(text, &ms) != TIDE_OK || (uint64_t)ms < limits.min ||
	    (uint64_t)ms > limits.max)
		return false;
	*out_ms = ms;
	return true;
}

const char *duration_format_range(struct number_limits limits,
				  char out[DURATION_RANGE_MAX])
{
	char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];

	duration_format((int64_t)limits.min, least);
	duration_format((int64_t)limits.max, most);
	snprintf(out, DURATION_RANGE_MAX, "from %s to %s", least, most);
	return out;
}

/* Where to read a log from, as people write it.
 *
 *   first                  the first message that is kept
 *   last                   behind the last: what comes from now on
 *   last-100               a hundred messages before that, at most
 *   committed              where the group is
 *   1234                   an offset
 *   2026-11-23T10:00:00Z   the first message of that time or later, UTC; the seconds may
 *                          have three decimals; a date alone is its midnight
 *   @1795428000000         likewise, ms since 1970
 *   90m                    likewise, so long ago; it needs a unit */

static const struct {
	const char *word;
	enum position_kind kind;
} words[] = {
	{ "first", POSITION_FIRST },
	{ "last", POSITION_LAST },
	{ "committed", POSITION_COMMITTED },
};

/* `count` digits at the front of the text, which are taken off it. */
static bool take_digits(struct slice *text, size_t count, uint64_t max, int *out)
{
	struct slice digits = { text->data, count };
	uint64_t n;

	if (text->len < count || !slice_to_uint(digits, max, &n))
		return false;
	*out = (int)n;
	*text = slice_skip(*text, count);
	return true;
}

static bool take_char(struct slice *text, char c)
{
	if (text->len == 0 || text->data[0] != c)
		return false;
	*text = slice_skip(*text, 1);
	return true;
}

/* "T10:00:00Z", "T10:00:00.250Z" */
static bool take_clock(struct slice *text, struct tm *tm, int *ms)
{
	if (!take_char(text, 'T') || !take_digits(text, 2, 23, &tm->tm_hour) ||
	    !take_char(text, ':') || !take_digits(text, 2, 59, &tm->tm_min) ||
	    !take_char(text, ':') || !take_digits(text, 2, 59, &tm->tm_sec))
		return false;
	if (take_char(text, '.') && !take_digits(text, 3, 999, ms))
		return false;
	return take_char(text, 'Z');
}

static bool read_date(struct slice text, int64_t *unix_ms)
{
	struct tm tm = { 0 };
	int year, month, ms = 0;
	time_t seconds;

	if (!take_digits(&text, 4, 9999, &year) || !take_char(&text, '-') ||
	    !take_digits(&text, 2, 12, &month) || !take_char(&text, '-') ||
	    !take_digits(&text, 2, 31, &tm.tm_mday))
		return false;
	if (text.len > 0 && !take_clock(&text, &tm, &ms))
		return false;
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	const struct tm wanted = tm;

	seconds = timegm(&tm);
	*unix_ms = (int64_t)seconds * 1000 + ms;
	/* The 30th of February would be a day of March. */
	return text.len == 0 && seconds >= 0 && tm.tm_mday == wanted.tm_mday &&
	       tm.tm_mon == wanted.tm_mon;
}

static bool read_position(struct slice text, struct position *out)
{
	uint64_t n;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (slice_is(text, words[i].word)) {
			*out = (struct position){ .kind = words[i].kind };
			return true;
		}
	*out = (struct position){ .kind = POSITION_LAST };
	if (slice_has_prefix(text, "last-"))
		return slice_to_uint(slice_skip(text, strlen("last-")),
				     POSITION_OFFSET_MAX, &out->offset);
	*out = (struct position){ .kind = POSITION_OFFSET };
	if (slice_to_uint(text, POSITION_OFFSET_MAX, &out->offset))
		return true;
	out->kind = POSITION_TIME;
	if (text.len > 0 && text.data[0] == '@' &&
	    slice_to_uint(slice_skip(text, 1), INT64_MAX / 2, &n)) {
		out->ms = (int64_t)n;
		return true;
	}
	if (read_date(text, &out->ms))
		return true;
	out->kind = POSITION_AGO;
	return text.len > 0 && text.data[text.len - 1] > '9' &&
	       duration_parse(text, &out->ms) == TIDE_OK;
}

int position_parse(struct slice text, struct position *out, struct error *err)
{
	if (read_position(text, out))
		return TIDE_OK;
	return error_set(
		err, TIDE_ESYNTAX,
		"'%.*s' is no position: expected first, last, last-100, an offset, a "
		"time "
		"like 2026-11-23T10:00:00Z or @<ms since 1970>, or how long ago, "
		"like 90m",
		SLICE_HEAD(text, 40));
}

int64_t position_time(const struct position *p, int64_t now_ms)
{
	if (p->kind == POSITION_TIME)
		return p->ms;
	return p->ms < now_ms ? now_ms - p->ms : 0;
}
