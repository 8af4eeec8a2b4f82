#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/container.h"
#include "host/machine.h"

#define ARGS_MAX 16
#define LOOK_MS 100 /* how often it is asked whether the child has ended */
#define REST_MS 500 /* for what a child has written when it ended */

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

static int spawn(const struct runner_child *spec, int out, pid_t *pid)
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

struct reading {
	struct runner_child *child;
	pid_t pid;
	int64_t until_ms; /* by the clock of poll; INT64_MAX: forever */
	bool has_ended;   /* the child; another may hold its output open */
	char data[RUNNER_LINE_MAX];
	size_t len;
};

static void take_lines(struct reading *r, bool is_all)
{
	struct slice rest = { r->data, r->len };
	size_t end;

	while ((end = slice_find(rest, '\n')) < rest.len) {
		r->child->on_line(r->child->ctx, (struct slice){ rest.data, end });
		rest = slice_skip(rest, end + 1);
	}
	if (rest.len > 0 && (is_all || rest.len == sizeof(r->data))) {
		r->child->on_line(r->child->ctx, rest);
		rest.len = 0;
	}
	r->len = rest.len;
	memmove(r->data, rest.data, r->len);
}

static int64_t clock_ms(void)
{
	return machine_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* When the child has ended, what it started ends, and its output is read for a little
 * while. The pid is its own until it is waited for. */
static void look_for_end(struct reading *r)
{
	siginfo_t info = { 0 };

	if (r->has_ended ||
	    waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
	    info.si_pid == 0)
		return;
	r->has_ended = true;
	r->until_ms = clock_ms() + REST_MS;
	kill(-r->pid, SIGKILL);
}

static void set_silence(struct reading *r, int64_t limit_ms)
{
	int64_t silent_ms = clock_ms() + r->child->silence_ms;

	if (!r->has_ended && r->child->silence_ms > 0)
		r->until_ms = silent_ms < limit_ms ? silent_ms : limit_ms;
}

/* Until the end of its output. False: the child was late. */
static bool read_all(struct reading *r, int fd)
{
	int64_t limit_ms =
		r->child->limit_ms ? clock_ms() + r->child->limit_ms : INT64_MAX;

	r->until_ms = limit_ms;
	set_silence(r, limit_ms);
	for (;;) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		int rc = poll(&wait, 1, LOOK_MS);
		ssize_t n;

		look_for_end(r);
		if (rc <= 0) {
			if (clock_ms() < r->until_ms)
				continue;
			return r->has_ended;
		}
		n = read(fd, r->data + r->len, sizeof(r->data) - r->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return true;
		r->len += (size_t)n;
		take_lines(r, false);
		set_silence(r, limit_ms);
		if (clock_ms() >= r->until_ms)
			return r->has_ended;
	}
}

static void set_pid(struct runner *r, pid_t pid)
{
	uv_mutex_lock(&r->lock);
	r->pid = pid;
	if (pid && r->is_ended)
		kill(-pid, SIGKILL);
	uv_mutex_unlock(&r->lock);
}

int runner_run(struct runner *r, struct runner_child *c, struct error *err)
{
	struct reading reading = { .child = c };
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, TIDE_ERULE, "no pipe to another process: %s",
				 strerror(errno));
	rc = spawn(c, ends[1], &reading.pid);
	close(ends[1]);
	if (rc != 0) {
		close(ends[0]);
		return error_set(err, TIDE_ERULE, "no other process can be started: %s",
				 strerror(rc));
	}
	set_pid(r, reading.pid);
	c->is_late = !read_all(&reading, ends[0]);
	take_lines(&reading, true);
	close(ends[0]);
	kill(-reading.pid, SIGKILL);
	set_pid(r, 0);
	while (waitpid(reading.pid, &c->status, 0) < 0 && errno == EINTR)
		;
	return TIDE_OK;
}

void runner_end(struct runner *r)
{
	uv_mutex_lock(&r->lock);
	r->is_ended = true;
	if (r->pid)
		kill(-r->pid, SIGKILL);
	uv_mutex_unlock(&r->lock);
}

void runner_init(struct runner *r, void (*work)(struct runner *r),
		 void (*on_done)(struct runner *r))
{
	r->work = work;
	r->on_done = on_done;
	uv_mutex_init(&r->lock);
}

void runner_deinit(struct runner *r)
{
	uv_mutex_destroy(&r->lock);
}

static void on_closed(uv_handle_t *handle)
{
	struct runner *r = container_of((uv_async_t *)handle, struct runner, async);

	runner_deinit(r);
	r->on_done(r);
}

static void on_worked(uv_async_t *async)
{
	uv_thread_join(&container_of(async, struct runner, async)->thread);
	uv_close((uv_handle_t *)async, on_closed);
}

static void run_thread(void *runner)
{
	struct runner *r = runner;

	r->work(r);
	uv_async_send(&r->async);
}

void runner_start(struct runner *r, uv_loop_t *loop)
{
	uv_async_init(loop, &r->async, on_worked);
	/* Without a thread it blocks, and is done all the same. */
	if (uv_thread_create(&r->thread, run_thread, r) != 0) {
		r->work(r);
		uv_close((uv_handle_t *)&r->async, on_closed);
	}
}
