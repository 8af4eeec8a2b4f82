/* redelivery.h: the least time between two deliveries of a message that comes back.
 *
 * A message that fails at once, again and again, would keep the broker and its consumers
 * busy with nothing else. Its first returns are immediate. From the fourth failure on,
 * the next delivery comes no sooner than a gap after the one that failed, which doubles
 * each time. The gap is a function of the number of failures, which is kept with the
 * message: a restart, a retry script and the way in which it failed change nothing. */
#pragma once

#include <stdint.h>

#define REDELIVERY_IMMEDIATE 3 /* failures after which it comes back at once */
#define REDELIVERY_GAP_MS 10   /* after the next one */
/* A failing message costs its consumers one delivery a second at most, and a second is
 * no loss where ten deliveries have been in vain. */
#define REDELIVERY_GAP_MAX_MS 1000

/* @param failures  so far */
static inline int64_t redelivery_gap_ms(uint32_t failures)
{
	uint32_t doublings = failures - REDELIVERY_IMMEDIATE - 1;

	if (failures <= REDELIVERY_IMMEDIATE)
		return 0;
	return doublings < 7 ? (int64_t)REDELIVERY_GAP_MS << doublings
			     : REDELIVERY_GAP_MAX_MS;
}
