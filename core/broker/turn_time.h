/* turn_time.h: how long the turns of the event loop keep it from looking at its sockets.
 *
 * A turn begins when the loop wakes, and ends before it waits again. Whoever is first in
 * a turn to read the clock tells it: a read of a client, an answer of Redis. So a turn
 * costs one look at the clock more. What comes before the first of them is known to
 * within a millisecond.
 *
 * All times are of uv_hrtime. */
#pragma once

#include "base/tally.h"

struct turn_time {
	uint64_t woke_ns; /* 0: the turn has not begun, as far as is known */
	struct tally busy;
};

/* It is awake. */
static inline void turn_time_note(struct turn_time *t, uint64_t now_ns)
{
	if (!t->woke_ns)
		t->woke_ns = now_ns;
}

/* The sockets have been served. It was awake by then: after turn_time_note.
 *
 * @param loop_ms  uv_now: the whole millisecond in which the loop woke */
void turn_time_check(struct turn_time *t, uint64_t loop_ms);
/* It is about to wait. Returns what the turn has taken. */
uint64_t turn_time_end(struct turn_time *t, uint64_t now_ns);
