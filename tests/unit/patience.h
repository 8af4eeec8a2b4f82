/* patience.h: how long a test waits for what must come. TIDE_TEST_PATIENCE=5 stretches it
 * five times, as it does in Lua (tests/integration/support/wait.lua). */
#ifndef TIDE_TEST_PATIENCE_H
#define TIDE_TEST_PATIENCE_H

#include <stdint.h>
#include <stdlib.h>
#include <uv.h>

#define DEADLINE_MS 20000

static inline int64_t patience_ms(int64_t ms)
{
	const char *text = getenv("TIDE_TEST_PATIENCE");
	double factor = text ? atof(text) : 1;

	return factor > 1 ? (int64_t)((double)ms * factor) : ms;
}

/* By the clock of uv_hrtime. */
static inline uint64_t patience_end_ns(void)
{
	return uv_hrtime() + (uint64_t)patience_ms(DEADLINE_MS) * 1000000;
}

#endif
