/* repeat.h: lines of the log that come too often.
 *
 * A line is known by its format. Of each, REPEAT_MAX are written in a period; further
 * ones are counted, and one line tells how many at the period's end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define REPEAT_MAX 10
#define REPEAT_PERIOD_MS 10000
#define REPEAT_SLOTS 128
#define REPEAT_TEXT_MAX 240

struct repeat {
	const char *format; /* NULL: the slot was never used */
	int64_t began_ms;   /* its period */
	uint64_t count;     /* in the period, written or not */
	int level;
	char text[REPEAT_TEXT_MAX]; /* of the last one that was written, perhaps cut */
};

struct repeats {
	struct repeat slots[REPEAT_SLOTS];
	int64_t due_ms; /* when the first period ends that has more to tell; 0: none */
};

/* Count one line. NULL: there is no slot for it, and it is written.
 *
 * Take what is due first: a slot with more to tell stays as it is until then. */
struct repeat *repeat_count(struct repeats *all, const char *format, int64_t mono_ms);
/* Whether the line is not to be written. */
static inline bool repeat_is_withheld(const struct repeat *r)
{
	return r && r->count > REPEAT_MAX;
}
/* Keep what was written, for the line that tells of the others. */
void repeat_keep(struct repeat *r, int level, const char *text);
/* One whose period is over and that has more to tell: a copy, and it starts anew. False:
 * there is none. @param is_end  every period is over */
bool repeat_take(struct repeats *all, int64_t mono_ms, bool is_end, struct repeat *out);
