#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
