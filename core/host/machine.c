#include "machine.h"

#include <sys/random.h>

uint64_t machine_random(void)
{
	uint64_t bits;

	if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits))
		bits = (uint64_t)machine_clock_ns(CLOCK_REALTIME);
	return bits;
}
