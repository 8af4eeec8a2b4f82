#include "metrics_broker.h"

#include "broker/exchange.h"
#include "service_figures.h"
#include "session_private.h"
#include "warnings.h"

static void begin(struct exposition *e, enum exposition_type type, const char *name,
		  const char *help)
{
	exposition_family(e, &(struct exposition_family){ name, type, help });
}

static void sample(struct exposition *e, const char *label, const char *value,
		   double number)
{
	exposition_sample(e, &(struct exposition_label){ label, slice_from(value) }, 1,
			  number);
}

static void write_build(struct exposition *e, const struct broker *b)
{
	char node[16];

	snprintf(node, sizeof(node), "%u", b->config.node);
	const struct exposition_label labels[] = {
		exposition_text("version", TIDE_VERSION), exposition_text("node", node)
	};
	begin(e, EXPOSITION_INFO, "tidemq_build", "The broker: its version and number.");
	exposition_sample(e, labels, 2, 1);
}

static void write_connections(struct exposition *e, const struct service *s)
{
	const struct net_protocol *p = s->protocols;

	begin(e, EXPOSITION_GAUGE, "tidemq_connections",
	      "Open connections, by protocol.");
	for (unsigned i = 0; i < NET_PROTOCOLS_MAX && p[i].name; i++)
		sample(e, "protocol", p[i].name, p[i].open);
}

static void write_warnings(struct exposition *e, const struct service *s)
{
	begin(e, EXPOSITION_GAUGE, "tidemq_warnings",
	      "Things that somebody should look after, by code.");
	for (unsigned i = 0; warnings_code(i); i++)
		sample(e, "code", warnings_code(i), warnings_count(s->warnings, i));
}

static void write_round_trips(struct exposition *e, const struct store_stats *st,
			      const struct journal_stats *j)
{
	begin(e, EXPOSITION_HISTOGRAM, "tidemq_store_round_trip_seconds",
	      "From a request to the answer of Redis.");
	exposition_tally(e, NULL, 0, &st->round_trip, tally_times_ns, 1e9);
	begin(e, EXPOSITION_HISTOGRAM, "tidemq_store_flush_changes",
	      "Messages that each batch writes, moves or removes.");
	exposition_tally(e, NULL, 0, &j->changes, tally_sizes, 1);
}

static void write_store(struct exposition *e, const struct service_moment *m)
{
	const struct broker *b = m->service->broker;
	const struct store_stats *st = &m->store;
	const struct exposition_label labels[] = {
		exposition_text("kind", st->kind),
		exposition_text("address", st->address),
		exposition_text("version", st->version),
	};

	begin(e, EXPOSITION_INFO, "tidemq_store", "Redis.");
	exposition_sample(e, labels, 3, 1);
	begin(e, EXPOSITION_GAUGE, "tidemq_store_trouble",
	      "1: something is wrong with Redis, by kind.");
	for (unsigned i = 0; i < STORE_TROUBLES; i++)
		sample(e, "kind", store_trouble_name((enum store_trouble)i),
		       store_has_trouble(b->store, (enum store_trouble)i));
	begin(e, EXPOSITION_COUNTER, "tidemq_store_refused_requests",
	      "Requests that Redis refused, by reason.");
	for (unsigned i = 0; i < STORE_REFUSALS; i++)
		sample(e, "reason", store_trouble_name((enum store_trouble)i),
		       st->refused[i]);
	write_round_trips(e, st, m->journal);
}

static void write_turns(struct exposition *e, const struct broker *b)
{
	begin(e, EXPOSITION_HISTOGRAM, "tidemq_loop_turn_seconds",
	      "Turns of the event loop: how long it did not look at its sockets.");
	exposition_tally(e, NULL, 0, &b->turn_time.busy, tally_times_ns, 1e9);
}

void metrics_broker_write(struct service *s, struct exposition *e)
{
	struct service_moment m;

	service_figures_take(&m, s);
	write_build(e, s->broker);
	write_connections(e, s);
	service_figures_expose(&m, e);
	write_warnings(e, s);
	write_store(e, &m);
	write_turns(e, s->broker);
}

#define EACH_VHOST(type, name, help, expression)                                         \
	begin(e, type, name, help);                                                      \
	for (const struct vhost *v = s->broker->vhosts; v; v = v->hh.next)               \
		exposition_sample(e,                                                     \
				  &(struct exposition_label){ "vhost", vhost_slice(v) }, \
				  1, (double)(expression));

void metrics_broker_write_vhosts(struct service *s, struct exposition *e)
{
	EACH_VHOST(EXPOSITION_GAUGE, "tidemq_queues", "Queues.",
		   HASH_COUNT(v->queues) - v->topic_count)
	EACH_VHOST(EXPOSITION_GAUGE, "tidemq_topics", "Topics.", v->topic_count)
	EACH_VHOST(EXPOSITION_GAUGE, "tidemq_exchanges", "Exchanges.",
		   HASH_COUNT(v->exchanges))
	EACH_VHOST(EXPOSITION_GAUGE, "tidemq_vhost_connections",
		   "Connections that work in the vhost.", v->sessions)
	EACH_VHOST(EXPOSITION_COUNTER, "tidemq_default_exchange_unroutable",
		   "Publishes to the default exchange that no queue took.",
		   v->unroutable.count)
}
