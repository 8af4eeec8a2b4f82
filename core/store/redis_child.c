#include "redis_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/slice.h"
#include "host/log.h"

#define SOCKET_NAME "redis.sock"
#define LOG_NAME "redis.log"
#define LOG_TAIL_BYTES 2048
/* The descriptor under which redis-server holds redis.lock. */
#define LOCK_FD 3
#define STOP_POLL_MS 5
/* SIGKILL after this; Redis needs the time for its last fsync alone. */
#define STOP_PATIENCE_MS 15000
#define STOP_HURRIED_MS 1000

struct redis_child {
	char *data_dir;
	char *program; /* redis-server's path */
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
	enum store_fsync fsync;
	int dir_fd;
	int broker_lock_fd;
	pid_t pid;     /* our child; 0: there is none */
	pid_t adopted; /* of an earlier broker, as it says; 0: none */
	bool has_answered;
	/* While stopping. */
	uv_timer_t timer;
	uint64_t kill_at_ms;
	bool is_killed;
	void (*on_stopped)(void *ctx);
	void *stopped_ctx;
};

static int open_in(const struct redis_child *child, const char *name, int flags)
{
	return openat(child->dir_fd, name, flags | O_CLOEXEC, 0600);
}

/* Hold <data>/lock and write our pid into it, for the broker that finds it held. */
static int lock_directory(struct redis_child *child, struct error *err)
{
	char holder[32] = "";
	int fd = child->broker_lock_fd = open_in(child, "lock", O_RDWR | O_CREAT);
	int len;

	if (fd < 0)
		return error_set(err, -errno, "cannot open %s/lock: %s", child->data_dir,
				 strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (pread(fd, holder, sizeof(holder) - 1, 0) > 0)
			holder[strcspn(holder, "\n")] = '\0';
		return error_set(
			err, TIDE_EEXISTS,
			"the data directory %s is in use by the broker with pid %s",
			child->data_dir, holder[0] ? holder : "(unknown)");
	}
	len = snprintf(holder, sizeof(holder), "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, holder, (size_t)len, 0) != len)
		return error_set(err, -errno, "cannot write %s/lock: %s", child->data_dir,
				 strerror(errno));
	return TIDE_OK;
}

/* A sockaddr_un has room for 107 bytes. A longer path goes through /proc. */
static void make_socket_path(struct redis_child *child)
{
	size_t size = sizeof(child->socket);
	int len = snprintf(child->socket, size, "%s/" SOCKET_NAME, child->data_dir);

	if ((size_t)len >= size)
		snprintf(child->socket, size, "/proc/self/fd/%d/" SOCKET_NAME,
			 child->dir_fd);
}

static char *find_program(const char *name)
{
	const char *path = getenv("PATH");
	struct slice rest =
		slice_from(path && *path ? path : "/usr/local/bin:/usr/bin:/bin");
	char candidate[PATH_MAX];

	while (rest.len > 0) {
		struct slice dir = slice_cut(&rest, ':');
		int len = snprintf(candidate, sizeof(candidate), "%" SLICE_FMT "/%s",
				   SLICE_ARG(dir), name);

		if (dir.len > 0 && (size_t)len < sizeof(candidate) &&
		    access(candidate, X_OK) == 0)
			return mem_strdup(candidate);
	}
	return NULL;
}

static void destroy(struct redis_child *child)
{
	if (child->broker_lock_fd >= 0)
		close(child->broker_lock_fd);
	if (child->dir_fd >= 0)
		close(child->dir_fd);
	mem_free(child->program);
	mem_free(child->data_dir);
	mem_free(child);
}

int redis_child_create(struct redis_child **out, const char *data_dir,
		       enum store_fsync fsync, struct error *err)
{
	struct redis_child *child = mem_zalloc(sizeof(*child));
	int rc;

	child->data_dir = mem_strdup(data_dir);
	child->program = find_program("redis-server");
	/* The same program: it goes by the name it is called by. Debian has this one in a
	 * package without a service, redis-tools. */
	if (!child->program)
		child->program = find_program("redis-check-rdb");
	child->fsync = fsync;
	child->broker_lock_fd = -1;
	child->dir_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (child->dir_fd < 0)
		rc = error_set(err, -errno, "cannot open the data directory %s: %s",
			       data_dir, strerror(errno));
	else
		rc = lock_directory(child, err);
	if (rc == TIDE_OK && !child->program)
		rc = error_set(err, UV_ENOENT,
			       "redis-server is not on the PATH; install it (Debian: apt "
			       "install redis-tools) or name another with --store "
			       "redis://");
	if (rc < 0) {
		destroy(child);
		return rc;
	}
	make_socket_path(child);
	*out = child;
	return TIDE_OK;
}

const char *redis_child_socket(const struct redis_child *child)
{
	return child->socket;
}

const char *redis_child_fsync(const struct redis_child *child)
{
	static const char *const names[] = {
		[STORE_FSYNC_ALWAYS] = "always",
		[STORE_FSYNC_EVERYSEC] = "everysec",
		[STORE_FSYNC_NO] = "no",
	};

	return names[child->fsync];
}

/* "12:M 21 Nov 2026 09:45:52.123 # text" -> "text" */
static const char *skip_log_prefix(const char *line)
{
	static const char *const marks[] = { " # ", " * ", " - ", " . " };

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *mark = strstr(line, marks[i]);

		if (mark && mark - line < 48)
			return mark + 3;
	}
	return line;
}

static void last_log_line(const struct redis_child *child, char *out, size_t size)
{
	char tail[LOG_TAIL_BYTES + 1];
	ssize_t len = -1;
	int fd = open_in(child, LOG_NAME, O_RDONLY);

	if (fd >= 0) {
		off_t end = lseek(fd, 0, SEEK_END);

		len = pread(fd, tail, LOG_TAIL_BYTES,
			    end > LOG_TAIL_BYTES ? end - LOG_TAIL_BYTES : 0);
		close(fd);
	}
	while (len > 0 && (tail[len - 1] == '\n' || tail[len - 1] == ' '))
		len--;
	if (len <= 0) {
		snprintf(out, size, "nothing");
		return;
	}
	tail[len] = '\0';
	const char *line = memrchr(tail, '\n', (size_t)len);
	snprintf(out, size, "%.200s", skip_log_prefix(line ? line + 1 : tail));
}

static int note_death(struct redis_child *child, int exit_status, struct error *err)
{
	bool is_surprise = child->has_answered;
	char how[80];
	char line[256];

	if (WIFSIGNALED(exit_status))
		snprintf(how, sizeof(how), "was killed by signal %d (%s)",
			 WTERMSIG(exit_status), strsignal(WTERMSIG(exit_status)));
	else
		snprintf(how, sizeof(how), "ended with status %d",
			 WEXITSTATUS(exit_status));
	last_log_line(child, line, sizeof(line));
	child->has_answered = false;
	if (!is_surprise)
		return error_set(err, TIDE_ESTORE,
				 "redis-server %s; last line of %s/%s: %s", how,
				 child->data_dir, LOG_NAME, line);
	log_error("store: redis-server %s; restarting it; last log line: %s", how, line);
	return TIDE_OK;
}

static const char *const server_options[][2] = {
	{ "--port", "0" },
	{ "--unixsocket", SOCKET_NAME },
	{ "--unixsocketperm", "700" },
	{ "--dir", "." },
	{ "--daemonize", "no" },
	{ "--logfile", LOG_NAME },
	{ "--appendonly", "yes" },
	{ "--no-appendfsync-on-rewrite", "no" },
	{ "--aof-use-rdb-preamble", "yes" },
	{ "--aof-load-truncated", "yes" },
	/* The file stays within about twice what it describes. */
	{ "--auto-aof-rewrite-percentage", "100" },
	{ "--auto-aof-rewrite-min-size", "64mb" },
	{ "--save", "" },
	{ "--maxmemory", "0" },
	{ "--maxmemory-policy", "noeviction" },
};

#define OPTION_WORDS (sizeof(server_options) / sizeof(const char *))

/* In the new process, between fork and exec, where only async-signal-safe
 * functions may be called: the broker has threads. */
static void run_server(const struct redis_child *child, const char *const *args,
		       int lock_fd, pid_t broker)
{
	sigset_t none;
	sigemptyset(&none);
	for (int signum = 1; signum < NSIG; signum++)
		signal(signum, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	umask(077);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != broker)
		_exit(126);
	int null_fd = open("/dev/null", O_RDWR);
	int log_fd = openat(child->dir_fd, LOG_NAME, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (fchdir(child->dir_fd) < 0 || dup2(null_fd, 0) < 0)
		_exit(126);
	/* The output of the child before it has opened its log itself. */
	dup2(log_fd >= 0 ? log_fd : null_fd, 1);
	dup2(log_fd >= 0 ? log_fd : null_fd, 2);
	if (lock_fd == LOCK_FD)
		fcntl(LOCK_FD, F_SETFD, 0);
	else if (dup2(lock_fd, LOCK_FD) < 0)
		_exit(126);
	close_range(LOCK_FD + 1, ~0U, 0);
	execv(child->program, (char *const *)(uintptr_t)args);
	static const char failed[] = "redis-server could not be executed\n";
	if (write(2, failed, sizeof(failed) - 1) < 0)
		_exit(126);
	_exit(127);
}

/* Close the files of a Redis that made them for all users to read. */
static void close_to_others(const struct redis_child *child)
{
	static const char *const names[] = { "appendonlydir", "dump.rdb", LOG_NAME,
					     "lock", "redis.lock" };
	struct stat st;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (fstatat(child->dir_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    S_ISLNK(st.st_mode) || !(st.st_mode & 077))
			continue;
		if (fchmodat(child->dir_fd, names[i], st.st_mode & 0700, 0) == 0)
			log_warn("store: other users could read %s/%s; now they cannot",
				 child->data_dir, names[i]);
		else
			log_warn("store: other users can read %s/%s: %s", child->data_dir,
				 names[i], strerror(errno));
	}
}

static int start(struct redis_child *child, int lock_fd, struct error *err)
{
	const char *args[OPTION_WORDS + 4] = { "redis-server" };
	pid_t broker = getpid();
	pid_t pid;

	memcpy(args + 1, server_options, sizeof(server_options));
	args[OPTION_WORDS + 1] = "--appendfsync";
	args[OPTION_WORDS + 2] = redis_child_fsync(child);
	close_to_others(child);
	pid = fork();
	if (pid < 0)
		return error_set(err, -errno, "cannot start redis-server: %s",
				 strerror(errno));
	if (pid == 0)
		run_server(child, args, lock_fd, broker);
	child->pid = pid;
	child->has_answered = false;
	log_debug("store: redis-server started with pid %ld", (long)pid);
	return TIDE_OK;
}

/* Is a redis-server alive? If not, take the lock it would hold, open. */
static int take_redis_lock(const struct redis_child *child, int *out_fd)
{
	int fd = open_in(child, "redis.lock", O_RDWR | O_CREAT);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	*out_fd = fd;
	return TIDE_OK;
}

/* Our child's end, if it has come. */
static bool reap(struct redis_child *child, int *exit_status)
{
	if (child->pid == 0 || waitpid(child->pid, exit_status, WNOHANG) != child->pid)
		return false;
	child->pid = 0;
	return true;
}

int redis_child_ensure(struct redis_child *child, struct error *err)
{
	int exit_status, lock_fd;
	int rc = TIDE_OK;

	if (reap(child, &exit_status))
		rc = note_death(child, exit_status, err);
	if (rc < 0 || child->pid)
		return rc;
	rc = take_redis_lock(child, &lock_fd);
	if (rc == UV_EAGAIN)
		return TIDE_OK; /* one is there already; the connection finds it */
	if (rc < 0)
		return error_set(err, rc, "cannot lock %s/redis.lock: %s",
				 child->data_dir, strerror(-rc));
	child->adopted = 0;
	rc = start(child, lock_fd, err);
	close(lock_fd);
	return rc;
}

void redis_child_set_answered(struct redis_child *child, int64_t pid)
{
	child->has_answered = true;
	if (child->pid)
		return;
	if (child->adopted != (pid_t)pid)
		log_info("store: using the redis-server with pid %lld, which an earlier "
			 "broker left in %s",
			 (long long)pid, child->data_dir);
	child->adopted = (pid_t)pid;
}

static bool is_gone(struct redis_child *child)
{
	int exit_status;
	int lock_fd;

	if (child->pid)
		return reap(child, &exit_status);
	if (take_redis_lock(child, &lock_fd) != TIDE_OK)
		return child->adopted == 0;
	close(lock_fd);
	return true;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct redis_child *child = handle->data;
	void (*on_stopped)(void *ctx) = child->on_stopped;
	void *ctx = child->stopped_ctx;

	destroy(child);
	on_stopped(ctx);
}

static void signal_server(const struct redis_child *child, int signum)
{
	pid_t pid = child->pid ? child->pid : child->adopted;

	if (pid > 0)
		kill(pid, signum);
}

static void on_stop_poll(uv_timer_t *timer)
{
	struct redis_child *child = timer->data;
	bool is_over = uv_now(timer->loop) > child->kill_at_ms;

	if (is_gone(child)) {
		uv_close((uv_handle_t *)timer, on_timer_closed);
	} else if (is_over && !child->is_killed) {
		log_warn("store: redis-server does not stop; killing it");
		child->is_killed = true;
		signal_server(child, SIGKILL);
	}
}

void redis_child_stop(struct redis_child *child, uv_loop_t *loop,
		      void (*on_stopped)(void *ctx), void *ctx)
{
	child->on_stopped = on_stopped;
	child->stopped_ctx = ctx;
	child->kill_at_ms = uv_now(loop) + STOP_PATIENCE_MS;
	uv_timer_init(loop, &child->timer);
	child->timer.data = child;
	if (!is_gone(child))
		signal_server(child, SIGTERM);
	uv_timer_start(&child->timer, on_stop_poll, 0, STOP_POLL_MS);
}

void redis_child_hurry(struct redis_child *child, int64_t within_ms)
{
	uint64_t kill_at_ms =
		uv_now(child->timer.loop) +
		(uint64_t)(within_ms > STOP_HURRIED_MS ? within_ms : STOP_HURRIED_MS);

	if (kill_at_ms < child->kill_at_ms)
		child->kill_at_ms = kill_at_ms;
}
