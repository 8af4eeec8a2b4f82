#include "breaker.h"

#define HALF_MS (BREAKER_WINDOW_MS / 2)

static void turn_window(struct breaker *b, int64_t now_ms)
{
	int64_t age_ms = now_ms - b->half_ms;

	if (age_ms < HALF_MS)
		return;
	bool is_fresh = age_ms < 2 * (int64_t)HALF_MS;
	b->calls[1] = is_fresh ? b->calls[0] : 0;
	b->errors[1] = is_fresh ? b->errors[0] : 0;
	b->calls[0] = b->errors[0] = 0;
	b->half_ms = now_ms;
}

static bool has_too_many(const struct breaker *b)
{
	uint64_t calls = (uint64_t)b->calls[0] + b->calls[1];
	uint64_t errors = (uint64_t)b->errors[0] + b->errors[1];

	return calls >= BREAKER_CALLS && errors * 2 >= calls;
}

bool breaker_count(struct breaker *b, bool has_failed, int64_t now_ms)
{
	if (b->is_open) {
		if (has_failed)
			b->opened_ms = now_ms;
		else
			*b = (struct breaker){ .half_ms = now_ms };
		return !has_failed;
	}
	turn_window(b, now_ms);
	b->calls[0]++;
	b->errors[0] += has_failed;
	if (!has_failed || !has_too_many(b))
		return false;
	b->is_open = true;
	b->opened_ms = now_ms;
	return true;
}

const char *breaker_state(const struct breaker *b, int64_t now_ms, int64_t rest_ms)
{
	if (!b->is_open)
		return "closed";
	return breaker_allows(b, now_ms, rest_ms) ? "half-open" : "open";
}
