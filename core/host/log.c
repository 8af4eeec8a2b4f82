#include "log.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "machine.h"

/* A longer line is cut; errors (ERROR_TEXT_MAX) and file names fit. */
#define LINE_MAX_BYTES 2048

enum sink_kind {
	SINK_WAITS, /* for its reader */
	SINK_OWN,   /* a description of our own, that does not wait */
	SINK_SOCKET,
	SINK_POLLED,
};

/* Where lines go. */
struct sink {
	int fd;
	enum sink_kind kind;
	bool is_cut; /* a line has been written in part */
};

static struct {
	enum log_level level;
	bool journal;
	struct sink out, err;
	uint64_t lost; /* lines that were not written, or not to their end */
} config = {
	.level = LOG_INFO,
	.out = { .fd = STDOUT_FILENO },
	.err = { .fd = STDERR_FILENO },
};

static const char *const names[] = { "error", "warn", "info", "debug" };

void log_configure(enum log_level level, bool journal)
{
	config.level = level;
	config.journal = journal;
}

/* Others share what we inherited, so that O_NONBLOCK is not ours to set there. Opened
 * anew, a pipe or a terminal has flags of its own. */
static void unblock(struct sink *s)
{
	char path[32];
	struct stat st;
	int fd;

	if (s->kind != SINK_WAITS || fstat(s->fd, &st) < 0 || S_ISREG(st.st_mode))
		return;
	s->kind = S_ISSOCK(st.st_mode) ? SINK_SOCKET : SINK_POLLED;
	if (s->kind == SINK_SOCKET)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return; /* it is another user's, or there is no /proc */
	s->fd = fd;
	s->kind = SINK_OWN;
}

void log_unblock(void)
{
	int fd;

	/* A descriptor that is closed would soon be a client's. */
	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
	unblock(&config.out);
	unblock(&config.err);
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

/* As write; a line is short enough for a pipe to take all of it or nothing. */
static ssize_t write_some(const struct sink *s, const char *data, size_t len)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };

	if (s->kind == SINK_SOCKET)
		return send(s->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (s->kind == SINK_POLLED && poll(&p, 1, 0) <= 0)
		return -1;
	return write(s->fd, data, len);
}

/* One write a line: lines of several processes on one descriptor stay whole. */
static bool write_line(struct sink *s, const char *line, size_t len)
{
	size_t done = 0;

	if (s->is_cut && write_some(s, "\n", 1) != 1)
		return false;
	s->is_cut = false;
	while (done < len) {
		ssize_t n = write_some(s, line + done, len - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	s->is_cut = done > 0 && done < len;
	return done == len;
}

static size_t begin_line(char *line, size_t room, enum log_level level)
{
	size_t len = config.journal ? 0 : stamp(line, room);

	return len + (size_t)snprintf(line + len, room - len, "%-5s ", names[level]);
}

static bool write_lost(void)
{
	char line[256];
	size_t len = begin_line(line, sizeof(line), LOG_WARN);

	len += (size_t)snprintf(line + len, sizeof(line) - len,
				"log: %llu lines were lost: they were not read\n",
				(unsigned long long)config.lost);
	return write_line(&config.err, line, len);
}

/* There is no place to report that the log cannot be written, but itself. */
static void put_line(struct sink *s, const char *line, size_t len)
{
	if (config.lost > 0 && write_lost())
		config.lost = 0;
	if (config.lost > 0 || !write_line(s, line, len))
		config.lost++;
}

void log_print(int fd, const char *format, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof(line) - 1, format, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	put_line(fd == STDOUT_FILENO ? &config.out : &config.err, line, (size_t)n);
}

void log_write(enum log_level level, const char *format, ...)
{
	if (!log_is_on(level))
		return;
	char line[LINE_MAX_BYTES];
	const size_t room = sizeof(line) - 1; /* the line break's */
	size_t len = begin_line(line, room, level);
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
	put_line(&config.err, line, end);
}
