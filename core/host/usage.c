#include "usage.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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
