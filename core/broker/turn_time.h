/* turn_time.h: how long the turns of the event loop keep it from looking at its sockets.
 *
 * A turn begins when the loop wakes, and ends before it waits again. Whoever is first in
 * a turn to read the clock tells it: a read of a client, an answer of Redis. So a turn
 * costs one look at the clock more. What comes before the first of them is known to
 * within a millisecond.
 *
 * What a turn does has parts. Whoever begins one tells it (turn_time_enter), so that a
 * slow turn can be explained.
 *
 * All times are of uv_hrtime. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/tally.h"

enum turn_part {
	TURN_OTHER,    /* timers, signals, files, and what nobody tells */
	TURN_REQUESTS, /* of clients, with what they bring about at once */
	TURN_STORE,    /* answers of Redis, likewise */
	TURN_TIMEOUTS, /* what is due by the clock, and requests that go on */
	TURN_DELIVERIES,
	TURN_SENDING, /* to clients */
	TURN_WRITING, /* to Redis */
	TURN_PARTS,
};

/* A stretch of a part. */
struct turn_piece {
	uint64_t took_ns;
	uint64_t connection; /* 0: none's */
	const char *what;    /* a literal; NULL: nothing in particular */
};

struct turn_time {
	uint64_t woke_ns; /* 0: the turn has not begun, as far as is known */
	struct tally busy;
	uint64_t slow_ns; /* a turn that takes longer is slow; 0: none is */
	uint64_t slow;    /* turns */
	uint64_t took_ns; /* the last one */
	/* Of this turn, or the last one. */
	uint64_t parts_ns[TURN_PARTS];
	struct turn_piece longest;
	/* The piece that goes on. */
	enum turn_part part;
	uint64_t since_ns;
	uint64_t connection;
};

void turn_time_begin(struct turn_time *t, uint64_t now_ns);
/* The piece ends that has gone on; another one begins, of whoever it is. */
static inline void turn_time_enter(struct turn_time *t, enum turn_part part,
				   uint64_t connection, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - t->since_ns;

	if (!t->woke_ns)
		turn_time_begin(t, now_ns);
	else {
		t->parts_ns[t->part] += took_ns;
		if (took_ns > t->longest.took_ns)
			t->longest = (struct turn_piece){ took_ns, t->connection, NULL };
	}
	t->part = part;
	t->connection = connection;
	t->since_ns = now_ns;
}
/* The same part of the same connection goes on. What it did so far was this, a literal.
 */
void turn_time_name(struct turn_time *t, const char *what, uint64_t now_ns);

/* The sockets have been served. It was awake by then: after turn_time_enter.
 *
 * @param loop_ms  uv_now: the whole millisecond in which the loop woke */
void turn_time_check(struct turn_time *t, uint64_t loop_ms);
/* The loop is about to wait. True: the turn was slow. */
bool turn_time_end(struct turn_time *t, uint64_t now_ns);
/* The duration of the last turn. */
uint64_t turn_time_took_ns(const struct turn_time *t);
/* The longest parts of the turn: "requests 71 ms, deliveries 8 ms; the longest: LIST
 * of connection 12, 70 ms". */
void turn_time_describe(const struct turn_time *t, struct buf *out);
