#include "cost.h"

/* Within a bucket the calls are taken to be spread evenly. */
uint64_t cost_quantile_ns(const struct cost *c, double share)
{
	uint64_t total = 0, before = 0;

	for (int i = 0; i < COST_BUCKETS; i++)
		total += c->buckets[i];
	double wanted = share * (double)total;
	for (int i = 0; i < COST_BUCKETS; before += c->buckets[i++]) {
		double in = (double)c->buckets[i];
		if (c->buckets[i] == 0 || (double)before + in < wanted)
			continue;
		double low = (double)(UINT64_C(1) << i);
		double ns = low + low * (wanted - (double)before) / in;
		return ns < (double)c->max_ns ? (uint64_t)ns : c->max_ns;
	}
	return c->max_ns;
}

void cost_write(const struct cost *c, struct json *out)
{
	json_member_int(out, "p50_ns", (int64_t)cost_quantile_ns(c, 0.5));
	json_member_int(out, "p99_ns", (int64_t)cost_quantile_ns(c, 0.99));
	json_member_int(out, "max_ns", (int64_t)c->max_ns);
	json_key(out, "histogram");
	json_array_begin(out);
	for (int i = 0; i < COST_BUCKETS; i++) {
		if (c->buckets[i] == 0)
			continue;
		json_array_begin(out);
		json_int(out, (int64_t)(UINT64_C(1) << i));
		json_int(out, (int64_t)c->buckets[i]);
		json_array_end(out);
	}
	json_array_end(out);
}
