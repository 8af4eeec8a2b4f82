/* breaker.h: a circuit breaker, which stops calling a script that keeps failing.
 *
 * The circuit opens when half of the calls within BREAKER_WINDOW_MS have failed, and
 * there were at least BREAKER_CALLS. While it is open, calls fail at once. They have the
 * consequences of a failure and cost nothing. After a rest the circuit is half-open: one
 * call is tried, and closes it or starts another rest. A new generation starts with a
 * closed circuit.
 *
 * Time is an argument: monotonic, in milliseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_CALLS 20
#define BREAKER_WINDOW_MS 10000
#define BREAKER_REST_MS 5000

/* All zeroes: closed. */
struct breaker {
	bool is_open;
	int64_t opened_ms;     /* the start of the rest */
	int64_t since_unix_ms; /* when it opened; later rests do not change it */
	/* The window has two halves. The older one is forgotten as a whole. */
	int64_t half_ms;
	uint32_t calls[2], errors[2];
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

/* "closed", "open", "half-open" */
const char *breaker_state(const struct breaker *b, int64_t now_ms, int64_t rest_ms);
