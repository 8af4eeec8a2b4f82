#include "trend.h"

#include <stdbool.h>

static uint64_t growth(const struct trend *t, uint64_t value)
{
	return value > t->value ? value - t->value : 0;
}

/* The first look compares with `first`. A clock that is set back begins a minute. */
static void look(struct trend *t, uint64_t value, uint64_t first, int64_t now_ms)
{
	int64_t passed_ms = now_ms - t->since_ms;
	bool has_begun = t->since_ms && passed_ms >= 0;

	if (has_begun && passed_ms < TREND_MS)
		return;
	t->before = has_begun ? growth(t, value) : 0;
	t->value = t->since_ms ? value : first;
	t->since_ms = now_ms;
}

uint64_t trend_gauge(struct trend *t, uint64_t value, int64_t now_ms)
{
	look(t, value, value, now_ms);
	return t->before;
}

uint64_t trend_counter(struct trend *t, uint64_t value, int64_t now_ms)
{
	look(t, value, 0, now_ms);
	return t->before + growth(t, value);
}
