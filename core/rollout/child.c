#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/machine.h"

#define ARGS_MAX 16

extern char **environ;

/* A group of its own, no blocked signals, and those that the broker ignores as they were.
 * (posix_spawn shares the broker's memory until the exec: it takes no longer for a
 * large one.) */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, defaults;

	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_setsigmask(attributes, &none);
	posix_spawnattr_setsigdefault(attributes, &defaults);
	posix_spawnattr_setpgroup(attributes, 0);
	return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
							    POSIX_SPAWN_SETSIGDEF |
							    POSIX_SPAWN_SETPGROUP);
}

static int spawn(const struct child_spec *spec, int out, pid_t *pid)
{
	char *argv[ARGS_MAX + 1] = { (char[]){ "tidemq" } };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int rc;

	for (int i = 0; i + 1 < ARGS_MAX && spec->args[i]; i++)
		argv[i + 1] = (char *)(uintptr_t)spec->args[i];
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY,
					 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	rc = set_attributes(&attributes);
	if (rc == 0)
		rc = posix_spawn(pid, spec->program, &actions, &attributes, argv,
				 environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return rc;
}

/* Of its output. */
struct reading {
	const struct child_spec *spec;
	char data[CHILD_LINE_MAX];
	size_t len;
};

static void take_lines(struct reading *r)
{
	struct slice all = { r->data, r->len };
	size_t end;

	while ((end = slice_find(all, '\n')) < all.len) {
		r->spec->on_line(r->spec->ctx, (struct slice){ all.data, end });
		all = slice_skip(all, end + 1);
	}
	/* Nothing that we say has such a line: the rest of it is dropped. */
	r->len = all.len < sizeof(r->data) ? all.len : 0;
	memmove(r->data, all.data, r->len);
}

/* Until the end of its output. False when it says nothing for too long. */
static bool read_all(struct reading *r, int fd)
{
	for (;;) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		int rc = poll(&wait, 1, (int)r->spec->silence_ms);
		ssize_t n;

		if (rc == 0)
			return false;
		if (rc < 0 && errno != EINTR)
			return true;
		if (rc < 0)
			continue;
		n = read(fd, r->data + r->len, sizeof(r->data) - r->len);
		if (n == 0 || (n < 0 && errno != EINTR))
			return true;
		if (n < 0)
			continue;
		r->len += (size_t)n;
		take_lines(r);
	}
}

int child_run(const struct child_spec *spec, struct child_end *end, struct error *err)
{
	struct reading reading = { .spec = spec };
	int ends[2], rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, TIDE_ERULE, "no pipe to another process: %s",
				 strerror(errno));
	rc = spawn(spec, ends[1], &pid);
	close(ends[1]);
	if (rc != 0) {
		close(ends[0]);
		return error_set(err, TIDE_ERULE, "no other process can be started: %s",
				 strerror(rc));
	}
	spec->on_pid(spec->ctx, pid);
	end->is_late = !read_all(&reading, ends[0]);
	close(ends[0]);
	/* Not before it is waited for is the pid another's. */
	kill(-pid, SIGKILL);
	spec->on_pid(spec->ctx, 0);
	while (waitpid(pid, &end->status, 0) < 0 && errno == EINTR)
		;
	return TIDE_OK;
}
