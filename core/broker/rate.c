#include "rate.h"

#include <stdbool.h>
#include <string.h>

#define TREND_MS 60000

void rate_begin(struct rate *r, uint64_t total, int64_t second)
{
	uint64_t count = total - r->before;
	int64_t passed = second - r->second;

	if (passed <= 0)
		return;
	if (passed > RATE_SECONDS) {
		memset(r->counts, 0, sizeof(r->counts));
	} else {
		r->counts[r->second % RATE_SECONDS] =
			count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
		for (int64_t s = r->second + 1; s < second; s++)
			r->counts[s % RATE_SECONDS] = 0;
	}
	r->before = total;
	r->second = second;
}

double rate_over(const struct rate *r, unsigned seconds)
{
	uint64_t sum = 0;

	for (unsigned i = 1; i <= seconds && i < r->second; i++)
		sum += r->counts[(r->second - i) % RATE_SECONDS];
	return (double)sum / seconds;
}

double rate_peek(const struct rate *r, uint64_t total, int64_t second, unsigned seconds)
{
	int64_t from = second - seconds;
	uint64_t sum = 0;

	if (r->second >= second)
		return rate_over(r, seconds);
	if (r->second >= from)
		sum = total - r->before;
	for (int64_t s = from > 1 ? from : 1; s < r->second; s++)
		if (s > r->second - RATE_SECONDS)
			sum += r->counts[s % RATE_SECONDS];
	return (double)sum / seconds;
}

/* Has a figure grown in the last minute or two?
 *
 * A zeroed trend has seen nothing. It is looked at now and then; a look compares with the
 * one that began the minute. */

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
