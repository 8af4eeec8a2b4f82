/* redelivery.h: the least time between two deliveries of a message that comes back.
 *
 * A message that fails at once, again and again, would keep the broker and its consumers
 * busy with nothing else. Its first returns are immediate. From the fourth delivery on,
 * the next one comes no sooner than a gap after it, which doubles each time. The gap is
 * a function of the number of deliveries, which is kept with the message: a restart, a
 * retry script and the way in which it came back change nothing. */
#pragma once

#include <stdint.h>

#define REDELIVERY_IMMEDIATE 3 /* deliveries after which it comes back at once */
#define REDELIVERY_GAP_MS 10   /* after the next one */
/* A failing message costs its consumers one delivery a second at most, and a second is
 * no loss where ten deliveries have been in vain. */
#define REDELIVERY_GAP_MAX_MS 1000

/* @param attempts  deliveries so far */
static inline int64_t redelivery_gap_ms(uint32_t attempts)
{
	uint32_t doublings = attempts - REDELIVERY_IMMEDIATE - 1;

	if (attempts <= REDELIVERY_IMMEDIATE)
		return 0;
	return doublings < 7 ? (int64_t)REDELIVERY_GAP_MS << doublings
			     : REDELIVERY_GAP_MAX_MS;
}
