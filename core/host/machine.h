/* machine.h: the clocks and the random bytes of the machine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

#include "base/error.h"

struct process {
	char host[65];
	char boot[40]; /* of the machine's kernel; "" when it does not tell */
	uint64_t pids; /* its namespace: containers have their own; 0: unknown */
	int64_t pid;
	uint64_t start_tick; /* of the boot: another process may get the pid later */
};

struct usage {
	uint64_t resident_bytes, virtual_bytes;
	int64_t cpu_us; /* of all its threads, in the program and in the kernel */
	uint64_t fds;   /* open descriptors; 0: the kernel (before 6.2) does not tell */
	uint64_t fds_max;
};

/* The time of the clock; 0 when it cannot be read, as the clock of a thread that
 * ended. */
static inline int64_t machine_clock_ns(clockid_t clock)
{
	struct timespec t = { 0 };

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t machine_clock_ms(clockid_t clock)
{
	return machine_clock_ns(clock) / 1000000;
}

/* 64 bits of entropy, for seeds. They are no secret: a machine that has no entropy
 * yet gives its clock. */
static inline uint64_t machine_random(void)
{
	uint64_t bits;

	if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits))
		bits = (uint64_t)machine_clock_ns(CLOCK_REALTIME);
	return bits;
}

void process_self(struct process *out);
/* Did the process run on this machine, where its end can be seen, and has it ended?
 * False also when that cannot be known: it runs elsewhere, or in another container. */
bool process_has_ended(const struct process *p);

/* TIDE_EDENIED when others than root, the user of this process and the owner of `like`
 * (a path) may write it: by its owner, or by the bits of its mode. A group counts as
 * others unless it is that of the process. With the sticky bit all may write a
 * directory, since nobody replaces what another has made there. */
TIDE_MUST_USE int machine_check_trust(const char *path, const char *like,
				      struct error *err);

/* Is the path that of the directory, or one below it? Both have no links. */
bool machine_is_within(const char *path, const char *dir);

/* A value that cannot be read is 0. */
void usage_read(struct usage *out);
