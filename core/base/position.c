#include "position.h"

#include <time.h>

#include "duration.h"

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
		"'%.*s' is no position: expected first, last, an offset, a time "
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
