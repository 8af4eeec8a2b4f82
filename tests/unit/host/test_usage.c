#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "host/machine.h"

#define MIB ((size_t)1 << 20)

TEST_THAT(memory_and_time_that_are_used_are_told)
{
	struct usage before, after;
	struct rlimit limit;
	volatile unsigned spent = 0;
	char *block;

	usage_read(&before);
	block = malloc(64 * MIB);
	assert_non_null(block);
	memset(block, 1, 64 * MIB);
	do {
		for (unsigned i = 0; i < 1000000; i++)
			spent += i;
		usage_read(&after);
	} while (after.cpu_us < before.cpu_us + 10000);
	assert_true(after.resident_bytes >= before.resident_bytes + 60 * MIB);
	assert_true(after.virtual_bytes >= before.virtual_bytes + 60 * MIB);
	free(block);
	getrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(after.fds_max, limit.rlim_cur);
}

RUN_TESTS()
