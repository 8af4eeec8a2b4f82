#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The identity of a process and its machine, so that another one can tell
 * whether it still runs. */

#define ZOMBIE 'Z'
/* Of /proc/<pid>/stat, counted from the state on, which is behind the name. */
#define START_TICK_WORD 19

static bool read_file(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, out, size - 1);

	if (fd >= 0)
		close(fd);
	out[len > 0 ? len : 0] = '\0';
	return len > 0;
}

/* The state of a process, and when it began; false when it cannot be read. */
static bool read_stat(int64_t pid, char *state, uint64_t *start_tick)
{
	char path[40], text[1024];
	char *at;

	snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	if (!read_file(path, text, sizeof(text)))
		return false;
	at = strrchr(text, ')'); /* its name may hold anything */
	if (!at || at[1] != ' ')
		return false;
	*state = at[2];
	at += 2;
	for (int i = 0; i < START_TICK_WORD && at; i++) {
		at = strchr(at, ' ');
		at += at != NULL;
	}
	if (!at)
		return false;
	*start_tick = strtoull(at, NULL, 10);
	return true;
}

void process_self(struct process *out)
{
	struct stat st;
	char state;

	*out = (struct process){ .pid = getpid() };
	gethostname(out->host, sizeof(out->host) - 1);
	if (read_file("/proc/sys/kernel/random/boot_id", out->boot, sizeof(out->boot)))
		out->boot[strcspn(out->boot, "\n")] = '\0';
	if (stat("/proc/self/ns/pid", &st) == 0)
		out->pids = st.st_ino;
	if (!read_stat(out->pid, &state, &out->start_tick))
		out->boot[0] = '\0'; /* nobody could compare it */
}

bool process_has_ended(const struct process *p)
{
	struct process self;
	uint64_t start_tick;
	char state;

	process_self(&self);
	if (!self.boot[0] || strcmp(self.boot, p->boot) != 0 || !self.pids ||
	    self.pids != p->pids || p->pid <= 0 || p->pid > INT32_MAX)
		return false;
	/* The call tells of processes of other users too, that /proc may hide. */
	if (kill((pid_t)p->pid, 0) < 0 && errno == ESRCH)
		return true;
	return read_stat(p->pid, &state, &start_tick) &&
	       (state == ZOMBIE || start_tick != p->start_tick);
}

/* The owners who may change a file or directory, as sshd asks it of its own. */

static bool is_sticky_dir(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
}

static bool may_others_write(const struct stat *st)
{
	bool by_group = (st->st_mode & S_IWGRP) && st->st_gid != getegid();

	return !is_sticky_dir(st) && (by_group || (st->st_mode & S_IWOTH));
}

int machine_check_trust(const char *path, const char *like, struct error *err)
{
	struct stat st, of_like;

	if (stat(path, &st) != 0)
		return error_set(err, TIDE_EDENIED, "'%s' cannot be looked at: %s", path,
				 strerror(errno));
	bool is_like = stat(like, &of_like) == 0 && st.st_uid == of_like.st_uid;
	if (st.st_uid != 0 && st.st_uid != geteuid() && !is_like)
		return error_set(err, TIDE_EDENIED,
				 "'%s' belongs to user %d; it must belong to root, to "
				 "the broker's user or to the owner of '%s'",
				 path, (int)st.st_uid, like);
	if (may_others_write(&st))
		return error_set(err, TIDE_EDENIED,
				 "'%s' can be written by others (mode %04o); take their "
				 "right to write away (chmod go-w)",
				 path, (unsigned)st.st_mode & 07777);
	return TIDE_OK;
}

bool machine_is_within(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return path[0] == '/';
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* The use that this process makes of its machine: memory, processor, descriptors. */

static void read_memory(struct usage *out)
{
	unsigned long long size, resident;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file)
		return;
	if (fscanf(file, "%llu %llu", &size, &resident) == 2) {
		out->virtual_bytes = size * page;
		out->resident_bytes = resident * page;
	}
	fclose(file);
}

static int64_t timeval_us(struct timeval t)
{
	return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

void usage_read(struct usage *out)
{
	struct rusage used;
	struct rlimit limit;
	struct stat st;

	*out = (struct usage){ 0 };
	read_memory(out);
	if (getrusage(RUSAGE_SELF, &used) == 0)
		out->cpu_us = timeval_us(used.ru_utime) + timeval_us(used.ru_stime);
	if (stat("/proc/self/fd", &st) == 0)
		out->fds = (uint64_t)st.st_size;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		out->fds_max = limit.rlim_cur;
}
