/* trend.h: whether a figure has grown in the last minute or two.
 *
 * A zeroed trend has seen nothing. It is looked at now and then; a look compares with the
 * one that began the minute. */
#pragma once

#include <stdint.h>

#define TREND_MS 60000

struct trend {
	uint64_t value;   /* when the minute began */
	uint64_t before;  /* by how much it grew in the minute before that */
	int64_t since_ms; /* when the minute began; 0: nothing was seen */
};

/* Of what goes up and down: by how much it grew in the last whole minute. */
uint64_t trend_gauge(struct trend *t, uint64_t value, int64_t now_ms);
/* Of what only goes up, from 0 on: by how much it grew in that minute and since. */
uint64_t trend_counter(struct trend *t, uint64_t value, int64_t now_ms);
