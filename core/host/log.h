/* log.h: the log: lines on standard error, one event each.
 *
 *   2026-11-21T09:45:52.123Z info  store: redis is back after 1.2 s
 *   {"time":"2026-11-21T09:45:52.123Z","level":"info","component":"store",
 *    "message":"redis is back after 1.2 s"}                          (on one line)
 *
 * The configuration is the one mutable global of the program. With `journal` the text
 * has no time (systemd adds its own). In both formats control characters become spaces,
 * so that no client can forge a line, and bytes that are not UTF-8 become '?'. One
 * thread logs: that of the loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Lines of the log that come too often.
 *
 * A line is known by its format. Of each, REPEAT_MAX are written in a period; further
 * ones are counted, and one line tells how many at the period's end. */
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
/* Is the line to be withheld? */
static inline bool repeat_is_withheld(const struct repeat *r)
{
	return r && r->count > REPEAT_MAX;
}
/* Keep what was written, for the line that tells of the others. */
void repeat_keep(struct repeat *r, int level, const char *text);
/* One whose period is over and that has more to tell: a copy, and it starts anew. False:
 * there is none. @param is_end  every period is over */
bool repeat_take(struct repeats *all, int64_t mono_ms, bool is_end, struct repeat *out);

/* With LOG_NONE configured nothing is written. */
enum log_level { LOG_NONE = -1, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

enum log_format { LOG_TEXT, LOG_JSON };

void log_configure(enum log_level level, bool journal);
void log_set_format(enum log_format format);
/* From now on a line that comes again and again is held back (repeat.h): whoever calls
 * this calls log_tell_repeats in time. */
void log_limit_repeats(void);
/* Are lines held back, so that log_tell_repeats has to tell how many? */
bool log_has_repeats(void);
/* Tell of those whose period is over. Gives the milliseconds until the next one is;
 * -1: nothing is held back. @param is_end  of all, as the program ends */
int64_t log_tell_repeats(bool is_end);
/* From now on no line waits for its reader. What a full pipe or a stopped terminal does
 * not take is counted, and the log says so when it can. Call it before other
 * descriptors are opened. */
void log_unblock(void);
bool log_is_on(enum log_level level);
void log_write(enum log_level level, const char *format, ...) TIDE_PRINTF(2, 3);
/* Likewise, for lines that differ in what counts, or are a record of who did what: none
 * is held back. */
void log_write_each(enum log_level level, const char *format, ...) TIDE_PRINTF(2, 3);

/* Say again that something lasts? Not within `rest_ms` of the last time, which is
 * noted here. 0: it was never said. An event that only happens often needs no such
 * care. */
static inline bool log_is_due(int64_t *logged_ms, int64_t now_ms, int64_t rest_ms)
{
	int64_t age_ms = now_ms - *logged_ms;

	if (*logged_ms && age_ms >= 0 && age_ms < rest_ms)
		return false;
	*logged_ms = now_ms;
	return true;
}

/* A line of no level, on standard output or standard error. */
void log_print(int fd, const char *format, ...) TIDE_PRINTF(2, 3);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                     \
	do {                                               \
		if (log_is_on(LOG_DEBUG))                  \
			log_write(LOG_DEBUG, __VA_ARGS__); \
	} while (0)
