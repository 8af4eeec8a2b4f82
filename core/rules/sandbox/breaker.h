/* breaker.h: keeps a script that fails again and again from being called.
 *
 * When half of its last calls have failed (BREAKER_CALLS of them at least, within
 * BREAKER_WINDOW_MS), the circuit opens: calls fail at once, with the same
 * consequences as a failure, and cost nothing. After a rest it is half-open: one
 * call is tried, which closes it or opens it for another rest. A new generation
 * begins closed.
 *
 * Time is monotonic, in milliseconds, and an argument. */
#ifndef TIDE_RULES_SANDBOX_BREAKER_H
#define TIDE_RULES_SANDBOX_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_CALLS 20
#define BREAKER_WINDOW_MS 10000
#define BREAKER_REST_MS 5000

/* All zeroes is a closed one. */
struct breaker {
	bool is_open;
	int64_t opened_ms;     /* or when the last trial failed */
	int64_t since_unix_ms; /* when it opened first */
	/* The window is two halves, the older of which is forgotten as a whole. */
	int64_t half_ms;
	uint32_t calls[2], errors[2];
};

/* May the script be called? */
static inline bool breaker_allows(const struct breaker *b, int64_t now_ms,
				  int64_t rest_ms)
{
	return !b->is_open || now_ms - b->opened_ms >= rest_ms;
}

/* It has been called. True when the circuit opened or closed by that; one that
 * stays open after a trial has not changed. */
bool breaker_count(struct breaker *b, bool has_failed, int64_t now_ms);

/* "closed", "open", "half-open" */
const char *breaker_state(const struct breaker *b, int64_t now_ms, int64_t rest_ms);

#endif
