/* duration.h: durations as people write them: 250ms 30s 5m 2h 1d, a bare
 * number is milliseconds. Whole numbers only; at most DURATION_MAX_MS. */
#pragma once

#include <stdint.h>

#include "error.h"
#include "slice.h"

#define DURATION_MAX_MS (INT64_C(366) * 24 * 3600 * 1000 * 10) /* ten years */
#define DURATION_TEXT_MAX 24

enum position_kind {
	POSITION_NONE, /* nobody has said one */
	POSITION_FIRST,
	POSITION_LAST,
	POSITION_COMMITTED,
	POSITION_OFFSET,
	POSITION_TIME, /* unix_ms */
	POSITION_AGO,  /* ms */
};

struct position {
	enum position_kind kind;
	uint64_t offset; /* of POSITION_LAST: how many messages before it */
	int64_t ms;
};

/* The bound of offsets: scores in Redis are exact below it. */
#define POSITION_OFFSET_MAX (UINT64_C(1) << 53)

/* Is it too early for something that rests until then? No rest is longer than was meant,
 * when the clock was set back. */
static inline bool duration_is_resting(int64_t now_ms, int64_t until_ms, int64_t most_ms)
{
	return until_ms > now_ms && until_ms - now_ms <= most_ms;
}

/* TIDE_ESYNTAX when the text is no duration; `*out_ms` is then untouched. */
TIDE_MUST_USE int duration_parse(struct slice text, int64_t *out_ms);
/* Is it a duration within these limits, in ms? */
bool duration_is_within(struct slice text, struct number_limits limits, int64_t *out_ms);
/* The shortest exact spelling: 90000 is "90s", 3600000 is "1h". */
void duration_format(int64_t ms, char out[DURATION_TEXT_MAX]);
/* "from 100ms to 1d" */
#define DURATION_RANGE_MAX (2 * DURATION_TEXT_MAX + 16)
const char *duration_format_range(struct number_limits limits,
				  char out[DURATION_RANGE_MAX]);

/* TIDE_ESYNTAX with a sentence that says what is allowed. */
TIDE_MUST_USE int position_parse(struct slice text, struct position *out,
				 struct error *err);
/* The time that a POSITION_TIME or POSITION_AGO means now. */
int64_t position_time(const struct position *p, int64_t now_ms);
