/* minute.h: what the calls of a script have cost over the last minute.
 *
 * A ring of slots of MINUTE_SLOT_S seconds: a call counts in that of its begin. The
 * oldest one is emptied when its turn comes again, so what is read is of the last 55 to
 * 60 seconds. The clock is monotonic. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cost.h"

#define MINUTE_SLOT_S 5
#define MINUTE_SLOTS (60 / MINUTE_SLOT_S)

struct minute_slot {
	int64_t number; /* which slot it is, since the clock began */
	uint32_t calls, errors;
	uint64_t time_ns, max_ns;
	uint32_t buckets[COST_BUCKETS];
};

struct minute {
	struct minute_slot slots[MINUTE_SLOTS];
};

struct minute_sum {
	uint64_t calls, errors, time_ns;
	struct cost cost;
};

void minute_add(struct minute *m, int64_t began_ns, uint64_t took_ns, bool has_failed);
void minute_read(const struct minute *m, int64_t now_ns, struct minute_sum *out);
