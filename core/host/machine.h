/* machine.h: the clocks and the random bytes of the machine. */
#pragma once

#include <stdint.h>
#include <sys/random.h>
#include <time.h>

/* The time of the clock; 0 when it cannot be read, as the clock of a thread that
 * ended. */
static inline int64_t machine_clock_ns(clockid_t clock)
{
	struct timespec t = { 0 };

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t machine_clock_ms(clockid_t clock)
{
	return machine_clock_ns(clock) / 1000000;
}

/* 64 bits of entropy, for seeds. They are no secret: a machine that has no entropy
 * yet gives its clock. */
static inline uint64_t machine_random(void)
{
	uint64_t bits;

	if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits))
		bits = (uint64_t)machine_clock_ns(CLOCK_REALTIME);
	return bits;
}
