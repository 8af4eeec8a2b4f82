#include "pace.h"

#include <uv.h>

/* About three times what a reload takes of a turn. */
#define SLICE_NS UINT64_C(5000000)

void pace_init(struct pace *p)
{
	static const uint64_t none; /* until there is an engine */

	*p = (struct pace){ .calls = &none };
}

void pace_begin(struct pace *p)
{
	p->began_ns = uv_hrtime();
	p->steps = 0;
}

bool pace_is_over(struct pace *p)
{
	p->calls_seen = *p->calls;
	return uv_hrtime() - p->began_ns > SLICE_NS;
}

uint64_t pace_taken_us(const struct pace *p)
{
	return (uv_hrtime() - p->began_ns) / 1000;
}
