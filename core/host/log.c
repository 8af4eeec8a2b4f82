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

/* Slots in which a format is looked for, from the one of its hash on. */
#define PROBES 8

static bool is_over(const struct repeat *r, int64_t mono_ms)
{
	return mono_ms - r->began_ms >= REPEAT_PERIOD_MS;
}

static bool is_free(const struct repeat *r, int64_t mono_ms)
{
	return !r->format || (!repeat_is_withheld(r) && is_over(r, mono_ms));
}

static struct repeat *find(struct repeats *all, const char *format, int64_t mono_ms)
{
	uint64_t hash = ((uintptr_t)format * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
	struct repeat *first_free = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct repeat *r = &all->slots[(hash + i) % REPEAT_SLOTS];

		if (r->format == format)
			return r;
		if (!first_free && is_free(r, mono_ms))
			first_free = r;
	}
	return first_free;
}

static void note_due(struct repeats *all, const struct repeat *r)
{
	int64_t end_ms = r->began_ms + REPEAT_PERIOD_MS;

	if (!all->due_ms || end_ms < all->due_ms)
		all->due_ms = end_ms;
}

struct repeat *repeat_count(struct repeats *all, const char *format, int64_t mono_ms)
{
	struct repeat *r = find(all, format, mono_ms);

	if (!r)
		return NULL;
	if (r->format != format || is_free(r, mono_ms)) {
		r->format = format;
		r->began_ms = mono_ms;
		r->count = 0;
	}
	r->count++;
	if (repeat_is_withheld(r))
		note_due(all, r);
	return r;
}

void repeat_keep(struct repeat *r, int level, const char *text)
{
	r->level = level;
	snprintf(r->text, sizeof(r->text), "%.*s", (int)sizeof(r->text) - 1, text);
	r->text[utf8_whole(r->text, strlen(r->text))] = '\0';
}

static void find_due(struct repeats *all)
{
	all->due_ms = 0;
	for (unsigned i = 0; i < REPEAT_SLOTS; i++)
		if (repeat_is_withheld(&all->slots[i]))
			note_due(all, &all->slots[i]);
}

bool repeat_take(struct repeats *all, int64_t mono_ms, bool is_end, struct repeat *out)
{
	if (!all->due_ms || (!is_end && mono_ms < all->due_ms))
		return false;
	for (unsigned i = 0; i < REPEAT_SLOTS; i++) {
		struct repeat *r = &all->slots[i];

		if (!repeat_is_withheld(r) || (!is_end && !is_over(r, mono_ms)))
			continue;
		*out = *r;
		r->count = 0;
		r->began_ms = mono_ms;
		find_due(all);
		return true;
	}
	find_due(all);
	return false;
}

/* A longer message is cut; errors (ERROR_TEXT_MAX) and file names fit. */
#define MESSAGE_MAX_BYTES 2000
/* Of a line with its time and level. A pipe takes so much as a whole or not at all. */
#define LINE_MAX_BYTES 4096

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
	enum log_format format;
	bool journal;
	bool limits_repeats;
	struct repeats repeats;
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

void log_set_format(enum log_format format)
{
	config.format = format;
}

void log_limit_repeats(void)
{
	config.limits_repeats = true;
}

bool log_has_repeats(void)
{
	return config.repeats.due_ms != 0;
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

/* "2026-11-21T09:45:52.123Z" */
static size_t stamp(char *out, size_t room)
{
	int64_t now_ms = machine_clock_ms(CLOCK_REALTIME);
	time_t second = (time_t)(now_ms / 1000);
	struct tm tm;

	gmtime_r(&second, &tm);
	size_t len = strftime(out, room, "%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(out + len, room - len, ".%03dZ", (int)(now_ms % 1000));
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

/* The possible beginning of a message: "store: ". */
static const char *const components[] = {
	"http", "log", "loop", "purge", "rules", "store", "TLS", "trace",
};

/* How much of the message its component is, with ": "; 0: it has none. */
static size_t component_len(const char *message)
{
	for (size_t i = 0; i < sizeof(components) / sizeof(components[0]); i++) {
		size_t len = strlen(components[i]);

		if (strncmp(message, components[i], len) == 0 &&
		    strncmp(message + len, ": ", 2) == 0)
			return len + 2;
	}
	return 0;
}

static bool is_control(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0);
}

/* In place: each control character becomes a space, each byte that is not UTF-8 a '?'.
 * Gives the length. */
static size_t clean(char *text, size_t len)
{
	size_t out = 0, n;
	uint32_t point;

	for (size_t i = 0; i < len; i += n) {
		n = utf8_decode(text + i, len - i, &point);
		if (n == 0 || is_control(point)) {
			text[out++] = n == 0 ? '?' : ' ';
			n = n ? n : 1;
			continue;
		}
		memmove(text + out, text + i, n);
		out += n;
	}
	text[out] = '\0';
	return out;
}

static size_t write_text(char *line, enum log_level level, const char *message)
{
	const size_t room = LINE_MAX_BYTES;
	size_t len = config.journal ? 0 : stamp(line, room);

	return len + (size_t)snprintf(line + len, room - len, "%s%-5s %s\n",
				      config.journal ? "" : " ", names[level], message);
}

/* Quoted, as much of it as there is room for. It is clean. */
static size_t quote(char *out, size_t room, const char *text)
{
	size_t len = 0, i;
	uint32_t point;

	for (i = 0; text[i];) {
		size_t n = utf8_decode(text + i, strlen(text + i), &point);
		bool is_escaped = text[i] == '"' || text[i] == '\\';

		if (n == 0 || len + n + is_escaped > room)
			break;
		if (is_escaped)
			out[len++] = '\\';
		memcpy(out + len, text + i, n);
		len += n;
		i += n;
	}
	return len;
}

static size_t write_json(char *line, enum log_level level, const char *message)
{
	static const char end[] = "\"}\n";
	const size_t room = LINE_MAX_BYTES - sizeof(end);
	size_t component = component_len(message), len;
	char time[32];

	stamp(time, sizeof(time));
	len = (size_t)snprintf(line, room, "{\"time\":\"%s\",\"level\":\"%s\",", time,
			       names[level]);
	if (component)
		len += (size_t)snprintf(line + len, room - len, "\"component\":\"%.*s\",",
					(int)component - 2, message);
	len += (size_t)snprintf(line + len, room - len, "\"message\":\"");
	len += quote(line + len, room - len, message + component);
	memcpy(line + len, end, sizeof(end));
	return len + sizeof(end) - 1;
}

/* @param message  is clean */
static bool write_message(enum log_level level, const char *message)
{
	char line[LINE_MAX_BYTES];
	size_t len = config.format == LOG_JSON ? write_json(line, level, message)
					       : write_text(line, level, message);

	return write_line(&config.err, line, len);
}

/* There is no place to report that the log cannot be written, but itself. */
static bool tell_lost(void)
{
	char message[80];

	if (config.lost == 0)
		return true;
	snprintf(message, sizeof(message),
		 "log: %llu lines were lost: they were not read",
		 (unsigned long long)config.lost);
	if (write_message(LOG_WARN, message)) {
		config.lost = 0;
		return true;
	}
	config.lost++;
	return false;
}

static void put_message(enum log_level level, const char *message)
{
	if (tell_lost() && !write_message(level, message))
		config.lost++;
}

void log_print(int fd, const char *format, ...)
{
	struct sink *s = fd == STDOUT_FILENO ? &config.out : &config.err;
	char line[MESSAGE_MAX_BYTES];
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
	if (tell_lost() && !write_line(s, line, (size_t)n))
		config.lost++;
}

/* Into MESSAGE_MAX_BYTES. Gives false where there is nothing to write. */
static bool format_message(char *out, const char *format, va_list ap)
{
	int n = vsnprintf(out, MESSAGE_MAX_BYTES, format, ap);

	if (n < 0)
		return false;
	clean(out,
	      n < MESSAGE_MAX_BYTES ? (size_t)n : utf8_whole(out, MESSAGE_MAX_BYTES - 1));
	return true;
}

static void tell(const struct repeat *r)
{
	char message[MESSAGE_MAX_BYTES];

	snprintf(message, sizeof(message), "%s (and %llu more lines like this in %d s)",
		 r->text, (unsigned long long)(r->count - REPEAT_MAX),
		 REPEAT_PERIOD_MS / 1000);
	put_message((enum log_level)r->level, message);
}

int64_t log_tell_repeats(bool is_end)
{
	int64_t mono_ms = machine_clock_ms(CLOCK_MONOTONIC);
	struct repeat r;

	while (repeat_take(&config.repeats, mono_ms, is_end, &r))
		tell(&r);
	if (!config.repeats.due_ms)
		return -1;
	return config.repeats.due_ms > mono_ms ? config.repeats.due_ms - mono_ms : 0;
}

void log_write(enum log_level level, const char *format, ...)
{
	char message[MESSAGE_MAX_BYTES];
	struct repeat *r = NULL;
	bool is_text;
	va_list ap;

	if (!log_is_on(level))
		return;
	if (config.limits_repeats) {
		log_tell_repeats(false);
		r = repeat_count(&config.repeats, format,
				 machine_clock_ms(CLOCK_MONOTONIC));
	}
	if (repeat_is_withheld(r))
		return;
	va_start(ap, format);
	is_text = format_message(message, format, ap);
	va_end(ap);
	if (!is_text)
		return;
	put_message(level, message);
	if (r)
		repeat_keep(r, level, message);
}

void log_write_each(enum log_level level, const char *format, ...)
{
	char message[MESSAGE_MAX_BYTES];
	bool is_text;
	va_list ap;

	if (!log_is_on(level))
		return;
	va_start(ap, format);
	is_text = format_message(message, format, ap);
	va_end(ap);
	if (is_text)
		put_message(level, message);
}
