#include "session_figures.h"

#include "base/tally.h"
#include "queue_document.h"
#include "rules/engine/engine_status.h"
#include "service_figures.h"
#include "service_health.h"
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

static void write_net(const struct service_moment *m, struct json *j)
{
	const struct net_protocol *p = m->service->protocols;

	json_member_object(j, "net");
	service_figures_write(m, "net", j);
	json_member_object(j, "open");
	for (unsigned i = 0; i < NET_PROTOCOLS_MAX && p[i].name; i++)
		json_member_int(j, p[i].name, p[i].open);
	json_object_end(j);
	json_object_end(j);
}

static void write_object(const struct service_moment *m, const char *name, struct json *j)
{
	json_member_object(j, name);
	service_figures_write(m, name, j);
	json_object_end(j);
}
static void write_rules(const struct broker *b, struct json *j)
{
	json_member_object(j, "counters");
	engine_status_counters(b->engine, j);
	json_object_end(j);
	json_member_array(j, "metrics");
	engine_status_metrics(b->engine, j);
	json_array_end(j);
}

static void write_store(const struct service_moment *m, struct json *j)
{
	const struct store_stats *st = &m->store;

	json_member_object(j, "store");
	json_member_text(j, "kind", st->kind);
	json_member_text(j, "address", st->address);
	json_member_text(j, "version", st->version);
	json_member_text(j, "state", store_state_name(m->service->broker->store));
	json_member_text(j, "trouble", store_trouble_now(m->service->broker->store));
	service_figures_write(m, "store", j);
	json_member_text(j, "last_error", m->journal->last_error);
	write_tally(j, "round_trip", &st->round_trip, tally_times_ns, 1000);
	write_tally(j, "changes", &m->journal->changes, tally_sizes, 1);
	json_member_object(j, "refused_requests");
	for (unsigned i = 0; i < STORE_REFUSALS; i++)
		if (st->refused[i])
			json_member_int(j, store_trouble_name((enum store_trouble)i),
					(int64_t)st->refused[i]);
	json_object_end(j);
	json_object_end(j);
}

void session_figures_write(const struct service *s, struct json *j)
{
	const struct broker *b = s->broker;
	struct service_moment m;

	service_figures_take(&m, s);
	json_member_text(j, "version", TIDE_VERSION);
	service_figures_write(&m, "", j);
	write_object(&m, "transactions", j);
	queue_document_rates(j, &b->in, &b->out);
	write_object(&m, "logins", j);
	write_object(&m, "limited", j);
	write_rules(b, j);
	write_object(&m, "logs", j);
	write_tally(j, "loop", &b->turn_time.busy, tally_times_ns, 1000);
	write_net(&m, j);
	write_object(&m, "process", j);
	write_store(&m, j);
	json_member_object(j, "health");
	service_health_write(s, true, j);
	json_object_end(j);
}
