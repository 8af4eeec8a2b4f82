#include "session_figures.h"

#include "base/tally.h"
#include "host/usage.h"
#include "session_private.h"

/* How many there were, and those of each step that has some. `unit` divides values and
 * ends the names of members: "_us". */
static void write_tally(struct json *j, const char *name, const struct tally *t,
			const uint64_t *steps, uint64_t unit)
{
	const bool is_time = unit > 1;

	json_member_object(j, name);
	json_member_int(j, "count", (int64_t)t->count);
	json_member_int(j, is_time ? "sum_us" : "sum", (int64_t)(t->sum / unit));
	json_member_int(j, is_time ? "max_us" : "max", (int64_t)(t->max / unit));
	json_member_array(j, "steps");
	for (unsigned i = 0; i == 0 || steps[i - 1] != UINT64_MAX; i++) {
		if (!t->counts[i])
			continue;
		json_object_begin(j);
		if (steps[i] != UINT64_MAX)
			json_member_int(j, is_time ? "to_us" : "to",
					(int64_t)(steps[i] / unit));
		json_member_int(j, "count", (int64_t)t->counts[i]);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void write_process(struct json *j)
{
	struct usage u;

	usage_read(&u);
	json_member_object(j, "process");
	json_member_int(j, "resident_bytes", (int64_t)u.resident_bytes);
	json_member_int(j, "virtual_bytes", (int64_t)u.virtual_bytes);
	json_member_int(j, "cpu_ms", u.cpu_us / 1000);
	if (u.fds)
		json_member_int(j, "fds", (int64_t)u.fds);
	json_member_int(j, "fds_max", (int64_t)u.fds_max);
	json_object_end(j);
}

static void write_net(const struct service *s, struct json *j)
{
	const struct net_figures *n = &s->net;

	json_member_object(j, "net");
	json_member_int(j, "accepted", (int64_t)n->accepted);
	json_member_int(j, "refused", (int64_t)n->refused);
	json_member_int(j, "bytes_in", (int64_t)n->bytes_in);
	json_member_int(j, "bytes_out", (int64_t)n->bytes_out);
	json_member_int(j, "tls_handshakes", (int64_t)n->tls_handshakes);
	json_member_int(j, "tls_failures", (int64_t)n->tls_failures);
	json_member_object(j, "open");
	for (unsigned i = 0; i < NET_PROTOCOLS_MAX && s->protocols[i].name; i++)
		json_member_int(j, s->protocols[i].name, s->protocols[i].open);
	json_object_end(j);
	json_object_end(j);
}

void session_figures_write(const struct service *s, struct json *j)
{
	write_tally(j, "loop", &s->broker->turn_time.busy, tally_times_ns, 1000);
	json_member_int(j, "slow_turns", (int64_t)s->broker->turn_time.slow);
	write_net(s, j);
	write_process(j);
}

void session_figures_write_store(const struct service *s, struct json *j)
{
	const struct journal_stats *n = journal_stats(s->broker->journal);
	struct store_stats st;

	store_memory_ask(s->broker->store);
	store_stats(s->broker->store, &st);
	json_member_int(j, "commands", (int64_t)st.commands);
	write_tally(j, "round_trip", &st.round_trip, tally_times_ns, 1000);
	write_tally(j, "changes", &n->changes, tally_sizes, 1);
	json_member_object(j, "refused_requests");
	for (unsigned i = 0; i < STORE_REFUSALS; i++)
		if (st.refused[i])
			json_member_int(j, store_trouble_name((enum store_trouble)i),
					(int64_t)st.refused[i]);
	json_object_end(j);
	if (!st.memory_bytes)
		return;
	json_member_int(j, "memory_bytes", (int64_t)st.memory_bytes);
	if (st.memory_max_bytes)
		json_member_int(j, "memory_max_bytes", (int64_t)st.memory_max_bytes);
}
