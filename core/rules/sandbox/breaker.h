/* breaker.h: a circuit breaker, which stops calling a script that keeps the loop busy.
 *
 * Failures are calls that used up their time or memory: they delay everybody. Errors cost
 * nobody but their caller, and do not count. The circuit opens at BREAKER_FAILURES within
 * BREAKER_WINDOW_MS, however many calls were well: with the default budget they take half
 * a second. While it is open, calls fail at once. They have the consequences of a failure
 * and cost nothing. After a rest the circuit is half-open: one call is tried, and closes
 * it or starts another rest.
 *
 * Time is an argument: monotonic, in milliseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_FAILURES 10
#define BREAKER_WINDOW_MS 10000
#define BREAKER_REST_MS 5000

/* All zeroes: closed. */
struct breaker {
	bool is_open;
	int64_t opened_ms;     /* the start of the rest */
	int64_t since_unix_ms; /* when it opened; later rests do not change it */
	/* The window has two halves. The older one is forgotten as a whole. */
	int64_t half_ms;
	uint32_t failures[2];
};

/* May the script be called? */
static inline bool breaker_allows(const struct breaker *b, int64_t now_ms,
				  int64_t rest_ms)
{
	return !b->is_open || now_ms - b->opened_ms >= rest_ms;
}

/* Count a call. Did the circuit open or close? It does neither when the call of a
 * half-open circuit fails. */
bool breaker_count(struct breaker *b, bool has_failed, int64_t now_ms);

/* Is there nothing to remember? */
bool breaker_is_blank(const struct breaker *b, int64_t now_ms);

/* "closed", "open", "half-open" */
const char *breaker_state(const struct breaker *b, int64_t now_ms, int64_t rest_ms);
