/* user_pattern.h: a pattern of names: a POSIX extended regular expression, not anchored.
 *
 * Whatever it is, it is compiled and asked in little time and memory: what would let it
 * grow is refused. An empty one matches nothing. */
#pragma once

#include <regex.h>

#include "error.h"
#include "slice.h"

#define USER_PATTERN_MAX 1024

struct user_pattern {
	char *text;
	bool is_all; /* no regex is asked */
	bool has_regex;
	regex_t regex;
};

/* Of a zeroed one. An error leaves it so, and says what is wrong. */
TIDE_MUST_USE int user_pattern_init(struct user_pattern *p, struct slice text,
				    struct error *err);
void user_pattern_deinit(struct user_pattern *p);
bool user_pattern_matches(const struct user_pattern *p, struct slice name);
