#include "turn_time.h"

#include <inttypes.h>
#include <string.h>

#define MS_NS UINT64_C(1000000)
/* A shorter part of the turn than this is not told. */
#define LEAST_SHARE 20

void turn_time_begin(struct turn_time *t, uint64_t now_ns)
{
	t->woke_ns = now_ns;
	memset(t->parts_ns, 0, sizeof(t->parts_ns));
	t->longest = (struct turn_piece){ 0 };
}

void turn_time_name(struct turn_time *t, const char *what, uint64_t now_ns)
{
	struct turn_piece before = t->longest;

	turn_time_enter(t, t->part, t->connection, now_ns);
	if (t->longest.took_ns > before.took_ns)
		t->longest.what = what;
}

void turn_time_check(struct turn_time *t, uint64_t loop_ms)
{
	uint64_t latest_ns = (loop_ms + 1) * MS_NS;

	if (t->woke_ns <= latest_ns)
		return;
	t->parts_ns[TURN_OTHER] += t->woke_ns - latest_ns;
	t->woke_ns = latest_ns;
}

bool turn_time_end(struct turn_time *t, uint64_t now_ns)
{
	uint64_t took_ns = t->woke_ns && t->woke_ns < now_ns ? now_ns - t->woke_ns : 0;
	bool is_slow = t->slow_ns && took_ns > t->slow_ns;

	turn_time_enter(t, TURN_OTHER, 0, now_ns);
	t->woke_ns = 0;
	t->took_ns = took_ns;
	t->slow += is_slow;
	tally_add(&t->busy, tally_times_ns, took_ns);
	return is_slow;
}

uint64_t turn_time_took_ns(const struct turn_time *t)
{
	return t->took_ns;
}

static double to_ms(uint64_t ns)
{
	return (double)ns / MS_NS;
}

void turn_time_describe(const struct turn_time *t, struct buf *out)
{
	static const char *const names[] = {
		[TURN_OTHER] = "timers and other",
		[TURN_REQUESTS] = "requests",
		[TURN_STORE] = "answers of Redis",
		[TURN_TIMEOUTS] = "timeouts, schedules and what goes on",
		[TURN_DELIVERIES] = "deliveries",
		[TURN_SENDING] = "sending to clients",
		[TURN_WRITING] = "writing to Redis",
	};
	const struct turn_piece *p = &t->longest;
	const char *comma = "";

	for (unsigned i = 0; i < TURN_PARTS; i++) {
		if (t->parts_ns[i] * LEAST_SHARE < t->took_ns || t->parts_ns[i] == 0)
			continue;
		buf_printf(out, "%s%s %.1f ms", comma, names[i], to_ms(t->parts_ns[i]));
		comma = ", ";
	}
	if (p->connection)
		buf_printf(out, "; the longest: %s%sconnection %" PRIu64 ", %.1f ms",
			   p->what ? p->what : "", p->what ? " of " : "", p->connection,
			   to_ms(p->took_ns));
}
