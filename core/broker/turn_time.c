#include "turn_time.h"

#define MS_NS UINT64_C(1000000)

void turn_time_check(struct turn_time *t, uint64_t loop_ms)
{
	uint64_t latest_ns = (loop_ms + 1) * MS_NS;

	if (t->woke_ns > latest_ns)
		t->woke_ns = latest_ns;
}

uint64_t turn_time_end(struct turn_time *t, uint64_t now_ns)
{
	uint64_t took_ns = t->woke_ns && t->woke_ns < now_ns ? now_ns - t->woke_ns : 0;

	t->woke_ns = 0;
	tally_add(&t->busy, tally_times_ns, took_ns);
	return took_ns;
}
