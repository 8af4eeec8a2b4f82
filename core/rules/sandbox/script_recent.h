/* script_recent.h: what decisions have taken since somebody last asked. */
#pragma once

#include <stdint.h>

#define SCRIPT_LONG_NS 1000000
#define SCRIPT_RECENT_FILE_MAX 64

struct script_recent {
	uint64_t sum_ns;
	/* The longest, if it was longer than SCRIPT_LONG_NS, and its file. */
	uint64_t longest_ns;
	char longest[SCRIPT_RECENT_FILE_MAX];
};
