/* rate.h: events a second, over the last 1 to 60 whole seconds.
 *
 * The owner counts the events in a total of its own. Before the first event of a second
 * it calls rate_begin; within a second nothing is to be done. A zeroed rate has seen
 * nothing. */
#pragma once

#include <stdint.h>

#define RATE_SECONDS 60

struct rate {
	int64_t second;  /* that of the last events */
	uint64_t before; /* the total when it began */
	uint32_t counts[RATE_SECONDS];
};

struct trend {
	uint64_t value;   /* when the minute began */
	uint64_t before;  /* by how much it grew in the minute before that */
	int64_t since_ms; /* when the minute began; 0: nothing was seen */
};

/* @param total   events so far
 * @param second  of a clock that nobody sets; from 1 on */
void rate_begin(struct rate *r, uint64_t total, int64_t second);
/* Events a second over the `seconds` (1-60) that ended last, after a rate_begin with the
 * present second. */
double rate_over(const struct rate *r, unsigned seconds);
/* The same of a rate that is left as it is, with its total and the present second. */
double rate_peek(const struct rate *r, uint64_t total, int64_t second, unsigned seconds);

/* Of what goes up and down: by how much it grew in the last whole minute. */
uint64_t trend_gauge(struct trend *t, uint64_t value, int64_t now_ms);
/* Of what only goes up, from 0 on: by how much it grew in that minute and since. */
uint64_t trend_counter(struct trend *t, uint64_t value, int64_t now_ms);
