/* fake_broker.h: a broker that plays a script, in a child process.
 *
 * A step is "<line", which must come from the client next, or "~pattern", which a line
 * must match that comes next, or "=", which is that line once more, or ">bytes", which
 * are sent, or ".", which waits until the client says QUIT or closes, or "!", which
 * closes and waits for another connection. At the end of the script the connection is
 * closed.
 *
 * "*" begins a script for a client with short limits, which on a busy machine pass early:
 * if it leaves, the part since the last "!" is played anew, and so is the last part until
 * the broker is stopped. */
#ifndef TIDE_TEST_FAKE_BROKER_H
#define TIDE_TEST_FAKE_BROKER_H

#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "patience.h"

struct fake_broker {
	char dir[64];
	char path[96];
	char url[128];
	int listener;
	pid_t pid;
	bool is_endless;
};

/* What every script begins with; the document is two bytes long. */
#define FAKE_HELLO "<HELLO vhost=/", ">DATA 2\r\n{}\r\n"

static void fake_fail(const char *what, const char *detail)
{
	fprintf(stderr, "fake broker: %s: %s\n", what, detail);
	_exit(1);
}

static char fake_matched[4096], fake_line[4096];

/* False: the client has closed. */
static bool fake_expect(FILE *from, const char *step)
{
	const char *want = *step == '=' ? fake_matched : step + 1;
	char line[sizeof(fake_matched)];
	if (!fgets(line, sizeof(line), from))
		return false;
	line[strcspn(line, "\r\n")] = 0;
	if (strcmp(line, "QUIT") == 0 && strcmp(want, "QUIT") != 0)
		return false;
	if (*step == '~' ? fnmatch(want, line, 0) != 0 : strcmp(line, want) != 0)
		fake_fail("an unexpected line", line);
	if (*step == '~')
		strcpy(fake_matched, line);
	return true;
}

static FILE *fake_accept(int listener)
{
	FILE *from = fdopen(accept(listener, NULL, NULL), "r+");
	if (!from)
		fake_fail("nobody connects", "");
	return from;
}

/* False: the client has closed. */
static bool fake_step(FILE *from, const char *step)
{
	size_t len = strlen(step + 1);

	if (strchr("<~=", *step))
		return fake_expect(from, step);
	if (*step == '>')
		return write(fileno(from), step + 1, len) == (ssize_t)len;
	while (fgets(fake_line, sizeof(fake_line), from) &&
	       strcmp(fake_line, "QUIT\r\n") != 0)
		;
	return true;
}

/* One connection: up to the next "!", or to the end, or to the step in which the client
 * left. */
static const char *const *fake_play_part(int listener, const char *const *step)
{
	FILE *from = fake_accept(listener);

	while (*step && **step != '!' && fake_step(from, *step))
		step++;
	fclose(from);
	return step;
}

static void fake_play(int listener, const char *const *part, bool is_endless)
{
	const char *const *end;

	do {
		end = fake_play_part(listener, part);
		if (*end && **end == '!')
			part = end + 1;
		else if (*end && !is_endless)
			fake_fail("the client closed instead of", *end);
	} while (*end || is_endless);
}

static void fake_listen(struct fake_broker *f)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	/* As every program that uses the library. */
	signal(SIGPIPE, SIG_IGN);
	snprintf(f->dir, sizeof(f->dir), "/tmp/tidemq-client-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
	snprintf(f->url, sizeof(f->url), "tide+unix:%s", f->path);
	strcpy(address.sun_path, f->path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)),
			 0);
	assert_int_equal(listen(f->listener, 1), 0);
}

static void fake_start(struct fake_broker *f, const char *const *script)
{
	fake_listen(f);
	f->is_endless = **script == '*';
	fflush(NULL);
	f->pid = fork();
	assert_true(f->pid >= 0);
	if (f->pid == 0) {
		alarm((unsigned)(patience_ms(30000) / 1000));
		fake_play(f->listener, script + f->is_endless, f->is_endless);
		_exit(0);
	}
}

/* Everything the script expected must have come. */
static void fake_stop(struct fake_broker *f)
{
	int status;
	if (f->is_endless)
		kill(f->pid, SIGTERM);
	assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
	close(f->listener);
	unlink(f->path);
	rmdir(f->dir);
	assert_int_equal(status, f->is_endless ? SIGTERM : 0);
}

#endif
