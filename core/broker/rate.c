#include "rate.h"

#include <string.h>

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
