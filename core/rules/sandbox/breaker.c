#include "breaker.h"

#define HALF_MS (BREAKER_WINDOW_MS / 2)

static void turn_window(struct breaker *b, int64_t now_ms)
{
	int64_t age_ms = now_ms - b->half_ms;

	if (age_ms < HALF_MS)
		return;
	bool is_fresh = age_ms < 2 * (int64_t)HALF_MS;
	b->failures[1] = is_fresh ? b->failures[0] : 0;
	b->failures[0] = 0;
	b->half_ms = now_ms;
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
	b->failures[0] += has_failed;
	if (!has_failed || b->failures[0] + b->failures[1] < BREAKER_FAILURES)
		return false;
	b->is_open = true;
	b->opened_ms = now_ms;
	return true;
}

bool breaker_is_blank(const struct breaker *b, int64_t now_ms)
{
	return !b->is_open && now_ms - b->half_ms >= BREAKER_WINDOW_MS;
}

const char *breaker_state(const struct breaker *b, int64_t now_ms, int64_t rest_ms)
{
	if (!b->is_open)
		return "closed";
	return breaker_allows(b, now_ms, rest_ms) ? "half-open" : "open";
}
