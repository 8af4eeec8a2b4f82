#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "host/log.h"

/* Standard error goes to a file for the time of a test. */
struct capture {
	int saved;
	FILE *file;
	char text[8192];
};

static void capture_begin(struct capture *c)
{
	c->file = tmpfile();
	assert_non_null(c->file);
	fflush(stderr);
	c->saved = dup(STDERR_FILENO);
	assert_true(dup2(fileno(c->file), STDERR_FILENO) >= 0);
}

static void capture_end(struct capture *c)
{
	assert_true(dup2(c->saved, STDERR_FILENO) >= 0);
	close(c->saved);
	rewind(c->file);
	size_t len = fread(c->text, 1, sizeof(c->text) - 1, c->file);
	c->text[len] = '\0';
	fclose(c->file);
}

static void a_line_has_time_level_and_text(void **state)
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

static void the_journal_gets_no_time(void **state)
{
	struct capture c;
	log_configure(LOG_INFO, true);
	capture_begin(&c);
	log_error("one");
	log_warn("two");
	capture_end(&c);
	assert_string_equal(c.text, "error one\nwarn  two\n");
}

static void levels_above_the_configured_one_are_silent(void **state)
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

static void no_text_can_forge_a_line(void **state)
{
	struct capture c;
	log_configure(LOG_INFO, true);
	capture_begin(&c);
	log_info("key '%s'", "x\r\n2026-01-01 error\x1b[2J\x7f");
	capture_end(&c);
	assert_string_equal(c.text, "info  key 'x  2026-01-01 error [2J '\n");
}

static void a_line_that_is_too_long_is_cut_and_still_ends(void **state)
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
	assert_in_range(newline - c.text, 2000, 2048);
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

/* Last: from here on nothing of this process waits for the reader of its log. */
static void a_reader_that_does_not_read_is_not_waited_for(void **state)
{
	static char text[1 << 18];
	int fds[2], saved = dup(STDERR_FILENO);

	fill(fds);
	assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
	log_configure(LOG_INFO, true);
	log_unblock();
	for (int i = 0; i < 1000; i++)
		log_info("lost %d", i);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_time_level_and_text),
		cmocka_unit_test(the_journal_gets_no_time),
		cmocka_unit_test(levels_above_the_configured_one_are_silent),
		cmocka_unit_test(no_text_can_forge_a_line),
		cmocka_unit_test(a_line_that_is_too_long_is_cut_and_still_ends),
		cmocka_unit_test(a_reader_that_does_not_read_is_not_waited_for),
	};
	return cmocka_run_group_tests_name("base/log", tests, NULL, NULL);
}
