#include "check.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "capture.h"
#include "host/log.h"

TEST_THAT(a_line_has_time_level_and_text)
{
	struct capture c;
	log_configure(LOG_INFO, false);
	capture_begin(&c);
	log_info("store: redis is back after %.1f s", 1.2);
	capture_end(&c);
	int year, ms, end = 0;
	assert_int_equal(
		sscanf(c.text, "%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%3dZ %n", &year, &ms, &end),
		2);
	assert_true(year >= 2024);
	assert_string_equal(c.text + end, "info  store: redis is back after 1.2 s\n");
}

TEST_THAT(the_journal_gets_no_time)
{
	struct capture c;
	log_configure(LOG_INFO, true);
	capture_begin(&c);
	log_error("one");
	log_warn("two");
	capture_end(&c);
	assert_string_equal(c.text, "error one\nwarn  two\n");
}

TEST_THAT(levels_above_the_configured_one_are_silent)
{
	struct capture c;
	log_configure(LOG_WARN, true);
	capture_begin(&c);
	log_info("no");
	log_debug("no");
	log_warn("yes");
	capture_end(&c);
	assert_string_equal(c.text, "warn  yes\n");
	assert_true(log_is_on(LOG_ERROR));
	assert_false(log_is_on(LOG_INFO));
	log_configure(LOG_DEBUG, true);
	assert_true(log_is_on(LOG_DEBUG));
}

TEST_THAT(no_text_can_forge_a_line)
{
	struct capture c;
	log_configure(LOG_INFO, true);
	capture_begin(&c);
	log_info("key '%s'", "x\r\n2026-01-01 error\x1b[2J\x7f");
	capture_end(&c);
	assert_string_equal(c.text, "info  key 'x  2026-01-01 error [2J '\n");
}

TEST_THAT(a_line_that_is_too_long_is_cut_and_still_ends)
{
	static char text[5000];
	memset(text, 'x', sizeof(text) - 1);
	struct capture c;
	log_configure(LOG_INFO, false);
	capture_begin(&c);
	log_info("%s", text);
	log_info("next");
	capture_end(&c);
	char *newline = strchr(c.text, '\n');
	assert_non_null(newline);
	assert_in_range(newline - c.text, 2000, 2048); /* and time and level */
	assert_non_null(strstr(newline, "next\n"));
}

/* A pipe that is full, in the place of standard error. */
static void fill(int pipe_fds[2])
{
	static const char byte = 'x';
	int flags;

	assert_int_equal(pipe(pipe_fds), 0);
	flags = fcntl(pipe_fds[1], F_GETFL);
	fcntl(pipe_fds[1], F_SETFL, flags | O_NONBLOCK);
	while (write(pipe_fds[1], &byte, 1) == 1)
		;
	fcntl(pipe_fds[1], F_SETFL, flags);
}

static size_t drain(int fd, char *out, size_t room)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t len = 0;

	while (poll(&p, 1, 0) > 0) {
		ssize_t n = read(fd, out + len, room - 1 - len);

		assert_true(n > 0);
		len += (size_t)n;
	}
	out[len] = '\0';
	return len;
}

TEST_THAT(bytes_that_are_no_text_become_marks)
{
	struct capture c;
	log_configure(LOG_INFO, true);
	capture_begin(&c);
	/* Not UTF-8; a control character of C1; a character that is whole. */
	log_info("a\xff\xc3z \xc2\x9b[2J caf\xc3\xa9 \xe2\x82");
	capture_end(&c);
	assert_string_equal(c.text, "info  a\?\?z  [2J caf\xc3\xa9 \?\?\n");
}

/* Log as JSON; the time is taken out. */
static void as_json(struct capture *c, enum log_level level, const char *text)
{
	char *time, *end;

	log_configure(LOG_DEBUG, true);
	log_set_format(LOG_JSON);
	capture_begin(c);
	log_write(level, "%s", text);
	capture_end(c);
	log_set_format(LOG_TEXT);
	time = strstr(c->text, "\"time\":\"20");
	assert_non_null(time);
	end = strstr(time, "Z\",");
	assert_non_null(end);
	assert_int_equal(end - time, strlen("\"time\":\"2026-11-21T09:45:52.123"));
	memmove(time, end + 3, strlen(end + 3) + 1);
}

TEST_THAT(json_has_level_component_and_message)
{
	struct capture c;

	as_json(&c, LOG_WARN, "store: redis is back");
	assert_string_equal(c.text, "{\"level\":\"warn\",\"component\":\"store\","
				    "\"message\":\"redis is back\"}\n");
	as_json(&c, LOG_INFO, "rules: specs: 3 have failed");
	assert_string_equal(c.text, "{\"level\":\"info\",\"component\":\"rules\","
				    "\"message\":\"specs: 3 have failed\"}\n");
	/* The name of a peer, or of a user, is no component. */
	as_json(&c, LOG_ERROR, "eve: closed");
	assert_string_equal(c.text,
			    "{\"level\":\"error\",\"message\":\"eve: closed\"}\n");
	as_json(&c, LOG_DEBUG, "store:x");
	assert_string_equal(c.text, "{\"level\":\"debug\",\"message\":\"store:x\"}\n");
}

TEST_THAT(json_cannot_be_forged)
{
	struct capture c;

	as_json(&c, LOG_INFO, "x\"}\r\n{\"level\":\"error\\\x1b\x7f\xff\xc2\x9b");
	assert_string_equal(c.text, "{\"level\":\"info\",\"message\":"
				    "\"x\\\"}  {\\\"level\\\":\\\"error\\\\  ? \"}\n");
}

TEST_THAT(json_that_is_too_long_is_cut_and_still_whole)
{
	static const char *const fillers[] = { "\"", "\\", "x", "\xe2\x82\xac", "\xff" };
	char text[6000];
	struct capture c;

	for (size_t f = 0; f < sizeof(fillers) / sizeof(fillers[0]); f++) {
		size_t n = strlen(fillers[f]), len = 0;

		for (; len + n < sizeof(text); len += n)
			memcpy(text + len, fillers[f], n);
		text[len] = '\0';
		as_json(&c, LOG_INFO, text);
		json_error_t error;
		json_t *line = json_loads(c.text, 0, &error);
		assert_non_null(line);
		const char *message = json_string_value(json_object_get(line, "message"));
		assert_in_range(strlen(message), 1900, 2000);
		assert_int_equal(message[0], f == 4 ? '?' : fillers[f][0]);
		assert_int_equal(strlen(message) % n, 0);
		assert_in_range(strlen(c.text), 1900, 4095);
		json_decref(line);
	}
}

/* The limit stays on. */
TEST_THAT(a_line_that_comes_again_and_again_is_held_back)
{
	struct capture c;
	const char *at;
	int lines = 0;

	log_configure(LOG_INFO, true);
	log_limit_repeats();
	capture_begin(&c);
	for (int i = 1; i <= 1234; i++)
		log_warn("store: lost %d", i);
	for (int i = 1; i <= 20; i++)
		log_write_each(LOG_INFO, "each %d", i);
	assert_true(log_has_repeats());
	assert_in_range(log_tell_repeats(false), 1, 10000);
	log_info("another");
	assert_int_equal(log_tell_repeats(true), -1);
	assert_false(log_has_repeats());
	capture_end(&c);
	for (at = c.text; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	assert_int_equal(lines, 10 + 20 + 1 + 1);
	at = strstr(c.text, "info  another\n");
	assert_non_null(at);
	assert_string_equal(at,
			    "info  another\nwarn  store: lost 10 (and 1224 more lines "
			    "like this in 10 s)\n");
}

/* Stays the last test: from here on the process does not wait for the reader of its log.
 */
TEST_THAT(a_reader_that_does_not_read_is_not_waited_for)
{
	static char text[1 << 18];
	int fds[2], saved = dup(STDERR_FILENO);

	fill(fds);
	assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
	log_configure(LOG_INFO, true);
	log_unblock();
	for (int i = 0; i < 1000; i++)
		log_write_each(LOG_INFO, "lost %d", i);
	drain(fds[0], text, sizeof(text));
	assert_null(strstr(text, "lost"));
	log_info("read %d", 1);
	log_print(STDERR_FILENO, "read %d", 2);
	drain(fds[0], text, sizeof(text));
	dup2(saved, STDERR_FILENO);
	assert_string_equal(text, "warn  log: 1000 lines were lost: they were not read\n"
				  "info  read 1\nread 2\n");
	/* Those who share the pipe keep their own way. */
	assert_false(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
}

RUN_TESTS()
