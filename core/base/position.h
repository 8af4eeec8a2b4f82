/* position.h: where to read a log from, as people write it.
 *
 *   first                  the first message that is kept
 *   last                   behind the last: what comes from now on
 *   committed              where the group is
 *   1234                   an offset
 *   2026-11-23T10:00:00Z   the first message of that time or later, UTC; the seconds may
 *                          have three decimals; a date alone is its midnight
 *   @1795428000000         likewise, ms since 1970
 *   90m                    likewise, so long ago; it needs a unit */
#pragma once

#include <stdint.h>

#include "error.h"
#include "slice.h"

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
	uint64_t offset;
	int64_t ms;
};

/* What offsets are below: scores in Redis are exact up to there. */
#define POSITION_OFFSET_MAX (UINT64_C(1) << 53)

/* TIDE_ESYNTAX with a sentence that says what is allowed. */
TIDE_MUST_USE int position_parse(struct slice text, struct position *out,
				 struct error *err);
/* The time that a POSITION_TIME or POSITION_AGO means now. */
int64_t position_time(const struct position *p, int64_t now_ms);
