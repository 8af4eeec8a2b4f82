/* usage.h: what this process has of its machine: memory, processor, descriptors. */
#pragma once

#include <stdint.h>

struct usage {
	uint64_t resident_bytes, virtual_bytes;
	int64_t cpu_us; /* of all its threads, in the program and in the kernel */
	uint64_t fds;   /* open descriptors; 0: the kernel (before 6.2) does not tell */
	uint64_t fds_max;
};

/* A value that cannot be read is 0. */
void usage_read(struct usage *out);
