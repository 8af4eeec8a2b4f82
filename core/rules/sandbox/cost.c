#include "cost.h"

uint64_t cost_quantile_ns(const struct cost *c, double share)
{
	return histogram_quantile(c->buckets, COST_BUCKETS, 0, share, c->max_ns);
}

void cost_write(const struct cost *c, struct json *out)
{
	json_member_int(out, "p50_ns", (int64_t)cost_quantile_ns(c, 0.5));
	json_member_int(out, "p99_ns", (int64_t)cost_quantile_ns(c, 0.99));
	json_member_int(out, "max_ns", (int64_t)c->max_ns);
	json_member_array(out, "histogram");
	for (unsigned i = 0; i < COST_BUCKETS; i++) {
		if (c->buckets[i] == 0)
			continue;
		json_array_begin(out);
		json_uint(out, histogram_lowest(i, 0));
		json_uint(out, c->buckets[i]);
		json_array_end(out);
	}
	json_array_end(out);
}
