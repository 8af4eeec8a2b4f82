#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "machine.h"

/* A longer line is cut; errors (ERROR_TEXT_MAX) and file names fit. */
#define LINE_MAX_BYTES 2048

static struct {
	enum log_level level;
	bool journal;
} config = { LOG_INFO, false };

static const char *const names[] = { "error", "warn", "info", "debug" };

void log_configure(enum log_level level, bool journal)
{
	config.level = level;
	config.journal = journal;
}

bool log_is_on(enum log_level level)
{
	return level <= config.level;
}

/* "2026-11-21T09:45:52.123Z " */
static size_t stamp(char *out, size_t room)
{
	int64_t now_ms = machine_clock_ms(CLOCK_REALTIME);
	time_t second = (time_t)(now_ms / 1000);
	struct tm tm;

	gmtime_r(&second, &tm);
	size_t len = strftime(out, room, "%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(out + len, room - len, ".%03dZ ", (int)(now_ms % 1000));
	return len;
}

/* One write a line: lines of several processes on one descriptor stay whole.
 * There is no place to report that the log cannot be written. */
static void write_line(const char *line, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDERR_FILENO, line, len);

		if (n <= 0)
			return;
		line += n;
		len -= (size_t)n;
	}
}

void log_write(enum log_level level, const char *format, ...)
{
	if (!log_is_on(level))
		return;
	char line[LINE_MAX_BYTES];
	const size_t room = sizeof(line) - 1; /* the line break's */
	size_t len = config.journal ? 0 : stamp(line, room);
	len += (size_t)snprintf(line + len, room - len, "%-5s ", names[level]);
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(line + len, room - len, format, ap);
	va_end(ap);
	if (n < 0)
		return;
	size_t end = len + (size_t)n;
	if (end >= room)
		end = utf8_whole(line, room - 1);
	for (size_t i = len; i < end; i++) {
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = ' ';
	}
	line[end++] = '\n';
	write_line(line, end);
}
