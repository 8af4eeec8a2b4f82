/* log.h: the log: lines on standard error, one event each.
 *
 *   2026-11-21T09:45:52.123Z info  store: redis is back after 1.2 s
 *
 * The level is the one mutable global of the program. With `journal` the time
 * is left out (systemd adds its own). Control characters in a line become
 * spaces, so that no client can forge a line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* With LOG_NONE configured nothing is written. */
enum log_level { LOG_NONE = -1, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_configure(enum log_level level, bool journal);
/* From now on no line waits for its reader. What a full pipe or a stopped terminal does
 * not take is counted, and the log says so when it can. Call it before other
 * descriptors are opened. */
void log_unblock(void);
bool log_is_on(enum log_level level);
void log_write(enum log_level level, const char *format, ...) TIDE_PRINTF(2, 3);

/* Whether to say again what may come in any number: not within `rest_ms` of the last
 * time, which it notes. 0: it was never said. */
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
