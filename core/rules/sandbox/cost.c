#include "cost.h"

#include <string.h>

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

#define SLOT_NS (INT64_C(1000000000) * MINUTE_SLOT_S)

void minute_add(struct minute *m, int64_t began_ns, uint64_t took_ns, bool has_failed)
{
	int64_t number = began_ns / SLOT_NS;
	struct minute_slot *slot = &m->slots[number % MINUTE_SLOTS];
	unsigned bucket = histogram_bucket(took_ns, 0);

	if (slot->number != number) {
		memset(slot, 0, sizeof(*slot));
		slot->number = number;
	}
	slot->calls++;
	slot->errors += has_failed;
	slot->time_ns += took_ns;
	if (took_ns > slot->max_ns)
		slot->max_ns = took_ns;
	slot->buckets[bucket < COST_BUCKETS ? bucket : COST_BUCKETS - 1]++;
}

void minute_read(const struct minute *m, int64_t now_ns, struct minute_sum *out)
{
	*out = (struct minute_sum){ 0 };
	for (unsigned i = 0; i < MINUTE_SLOTS; i++) {
		const struct minute_slot *slot = &m->slots[i];

		if (slot->number <= now_ns / SLOT_NS - MINUTE_SLOTS)
			continue;
		out->calls += slot->calls;
		out->errors += slot->errors;
		out->time_ns += slot->time_ns;
		if (slot->max_ns > out->cost.max_ns)
			out->cost.max_ns = slot->max_ns;
		for (unsigned b = 0; b < COST_BUCKETS; b++)
			out->cost.buckets[b] += slot->buckets[b];
	}
}
