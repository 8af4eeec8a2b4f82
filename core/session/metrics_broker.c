#include "metrics_broker.h"

#include "broker/exchange.h"
#include "host/usage.h"
#include "service_pressure.h"
#include "service_users.h"
#include "session_private.h"
#include "shard/dedupe.h"

/* What is asked once for all samples. */
struct facts {
	const struct service *service;
	const struct broker *broker;
	const struct journal_stats *journal;
	struct store_stats store;
	struct usage usage;
};

/* A family with one sample; with a label, the family of the row before. */
struct figure {
	struct exposition_family family;
	double (*value)(const struct facts *f);
	const char *label, *label_value;
};

#define BROKER_FIGURE(name, expression)                    \
	static double figure_##name(const struct facts *f) \
	{                                                  \
		const struct broker *b = f->broker;        \
		const struct service *s = f->service;      \
                                                           \
		(void)b;                                   \
		(void)s;                                   \
		return (double)(expression);               \
	}

BROKER_FIGURE(unusable, b->unusable)
BROKER_FIGURE(blocked, s->is_blocked)
BROKER_FIGURE(draining, b->refuses_publishes)
BROKER_FIGURE(published, b->counters.published)
BROKER_FIGURE(routed, b->counters.routed)
BROKER_FIGURE(unroutable, b->counters.unroutable)
BROKER_FIGURE(duplicates, b->counters.duplicates)
BROKER_FIGURE(delivered, b->counters.delivered)
BROKER_FIGURE(acked, b->counters.acked)
BROKER_FIGURE(failed, b->counters.failed)
BROKER_FIGURE(paced, b->counters.paced)
BROKER_FIGURE(dead_lettered, b->counters.dead_lettered)
BROKER_FIGURE(death_limited, b->counters.death_limited)
BROKER_FIGURE(memory_bytes, service_pressure_memory(s))
BROKER_FIGURE(memory_limit_bytes, b->config.memory_max_bytes)
BROKER_FIGURE(dedupe_memory_bytes, dedupe_bytes(b->dedupe))
BROKER_FIGURE(dedupe_memory_limit_bytes, b->config.dedupe_max_bytes)
BROKER_FIGURE(routes_memory_bytes, b->route_bytes)
BROKER_FIGURE(transactions_open, s->transactions.open)
BROKER_FIGURE(transactions_bytes, s->transactions.bytes)
BROKER_FIGURE(transactions_committed, s->transactions.committed)
BROKER_FIGURE(transactions_failed, s->transactions.failed)
BROKER_FIGURE(transactions_rolled_back, s->transactions.rolled_back)
BROKER_FIGURE(users, users_count(&b->users))
BROKER_FIGURE(anonymous, service_users_is_open(s))
BROKER_FIGURE(logins_accepted, s->login.counters.accepted)
BROKER_FIGURE(logins_refused, s->login.counters.refused)
BROKER_FIGURE(passwords_hashed, s->password_work.count)
BROKER_FIGURE(limited_connections, s->allowances.refused.connections)
BROKER_FIGURE(limited_channels, s->allowances.refused.channels)
BROKER_FIGURE(limited_publishes, s->allowances.refused.publishes)
BROKER_FIGURE(connections_limit, s->net.limit)
BROKER_FIGURE(connections_accepted, s->net.accepted)
BROKER_FIGURE(connections_refused, s->net.refused)
BROKER_FIGURE(received_bytes, s->net.bytes_in)
BROKER_FIGURE(sent_bytes, s->net.bytes_out)
BROKER_FIGURE(tls_handshakes, s->net.tls_handshakes)
BROKER_FIGURE(tls_failures, s->net.tls_failures)
BROKER_FIGURE(log_appended, b->partitions.stats.appended)
BROKER_FIGURE(log_batches, b->partitions.stats.batches)
BROKER_FIGURE(log_refused, b->partitions.stats.refused)
BROKER_FIGURE(log_merged_batches, b->partitions.stats.merged)
BROKER_FIGURE(log_compacted, b->partitions.stats.compacted)
BROKER_FIGURE(log_read_batches, b->partitions.stats.read_batches)
BROKER_FIGURE(log_unstored_bytes, b->partitions.unstored_bytes)
BROKER_FIGURE(log_tail_bytes, b->partitions.tail_bytes)
BROKER_FIGURE(log_memory_bytes, b->partitions.memory_bytes)
BROKER_FIGURE(store_up, store_state(b->store) == STORE_UP)
BROKER_FIGURE(store_requests, f->store.requests)
BROKER_FIGURE(store_commands, f->store.commands)
BROKER_FIGURE(store_transactions, f->store.transactions)
BROKER_FIGURE(store_reconnects, f->store.reconnects)
BROKER_FIGURE(store_sent_bytes, f->store.bytes_sent)
BROKER_FIGURE(store_pending_requests, f->store.pending_requests)
BROKER_FIGURE(store_pending_bytes, f->store.pending_bytes)
BROKER_FIGURE(store_flushes, f->journal->flushes)
BROKER_FIGURE(store_inserted, f->journal->inserted)
BROKER_FIGURE(store_removed, f->journal->removed)
BROKER_FIGURE(store_elided, f->journal->elided)
BROKER_FIGURE(store_refused_publishes, f->journal->refused)
BROKER_FIGURE(store_unstored_bytes, b->env.unstored_bytes)
BROKER_FIGURE(store_unstored_limit_bytes, b->config.unstored_max_bytes)
BROKER_FIGURE(loop_turn_max_seconds, (double)b->turn_time.busy.max / 1e9)
BROKER_FIGURE(process_cpu_seconds, (double)f->usage.cpu_us / 1e6)
BROKER_FIGURE(process_resident_memory_bytes, f->usage.resident_bytes)
BROKER_FIGURE(process_virtual_memory_bytes, f->usage.virtual_bytes)
BROKER_FIGURE(process_max_fds, f->usage.fds_max)
BROKER_FIGURE(process_start_time_seconds, (double)b->started_unix_ms / 1000)

static const struct figure broker_figures[] = {
	{ { "tidemq_unusable", EXPOSITION_GAUGE,
	    "Exchanges, queues and topics that cannot be used." },
	  figure_unusable,
	  NULL,
	  NULL },
	{ { "tidemq_blocked", EXPOSITION_GAUGE,
	    "1: publishers and schedules are held back." },
	  figure_blocked,
	  NULL,
	  NULL },
	{ { "tidemq_draining", EXPOSITION_GAUGE, "1: publishes are refused (DRAIN)." },
	  figure_draining,
	  NULL,
	  NULL },
	{ { "tidemq_published", EXPOSITION_COUNTER,
	    "Accepted publishes, with repetitions and the copies of filters." },
	  figure_published,
	  NULL,
	  NULL },
	{ { "tidemq_routed", EXPOSITION_COUNTER,
	    "Copies of messages that queues and topics took." },
	  figure_routed,
	  NULL,
	  NULL },
	{ { "tidemq_unroutable", EXPOSITION_COUNTER, "Publishes that no queue took." },
	  figure_unroutable,
	  NULL,
	  NULL },
	{ { "tidemq_duplicates", EXPOSITION_COUNTER,
	    "Copies not taken because their id had been seen." },
	  figure_duplicates,
	  NULL,
	  NULL },
	{ { "tidemq_delivered", EXPOSITION_COUNTER, "Deliveries to consumers." },
	  figure_delivered,
	  NULL,
	  NULL },
	{ { "tidemq_acked", EXPOSITION_COUNTER, "Messages acknowledged." },
	  figure_acked,
	  NULL,
	  NULL },
	{ { "tidemq_failed", EXPOSITION_COUNTER, "Deliveries that failed." },
	  figure_failed,
	  NULL,
	  NULL },
	{ { "tidemq_paced", EXPOSITION_COUNTER, "Returns that had to wait." },
	  figure_paced,
	  NULL,
	  NULL },
	{ { "tidemq_dead_lettered", EXPOSITION_COUNTER,
	    "Messages sent to a dead-letter target." },
	  figure_dead_lettered,
	  NULL,
	  NULL },
	{ { "tidemq_death_limited", EXPOSITION_COUNTER,
	    "Messages buried because they had died too often." },
	  figure_death_limited,
	  NULL,
	  NULL },
	{ { "tidemq_memory_bytes", EXPOSITION_GAUGE, "Messages in memory." },
	  figure_memory_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_memory_limit_bytes", EXPOSITION_GAUGE,
	    "From here on publishers are held back." },
	  figure_memory_limit_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_dedupe_memory_bytes", EXPOSITION_GAUGE, "Publish ids in memory." },
	  figure_dedupe_memory_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_dedupe_memory_limit_bytes", EXPOSITION_GAUGE,
	    "What publish ids may take." },
	  figure_dedupe_memory_limit_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_routes_memory_bytes", EXPOSITION_GAUGE, "Remembered routes." },
	  figure_routes_memory_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_transactions_open", EXPOSITION_GAUGE,
	    "Transactions begun and not ended." },
	  figure_transactions_open,
	  NULL,
	  NULL },
	{ { "tidemq_transactions_bytes", EXPOSITION_GAUGE, "What they keep." },
	  figure_transactions_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_transactions", EXPOSITION_COUNTER,
	    "Transactions that ended, by outcome." },
	  figure_transactions_committed,
	  "outcome",
	  "committed" },
	{ { 0 }, figure_transactions_failed, "outcome", "failed" },
	{ { 0 }, figure_transactions_rolled_back, "outcome", "rolled_back" },
	{ { "tidemq_users", EXPOSITION_GAUGE, "Users that are defined." },
	  figure_users,
	  NULL,
	  NULL },
	{ { "tidemq_anonymous", EXPOSITION_GAUGE, "1: nobody has to log in." },
	  figure_anonymous,
	  NULL,
	  NULL },
	{ { "tidemq_logins", EXPOSITION_COUNTER, "Logins, by outcome." },
	  figure_logins_accepted,
	  "outcome",
	  "accepted" },
	{ { 0 }, figure_logins_refused, "outcome", "refused" },
	{ { "tidemq_passwords_hashed", EXPOSITION_COUNTER,
	    "Passwords hashed, to verify or to set them." },
	  figure_passwords_hashed,
	  NULL,
	  NULL },
	{ { "tidemq_limited", EXPOSITION_COUNTER,
	    "What was refused at a limit of a user or an address." },
	  figure_limited_connections,
	  "what",
	  "connections" },
	{ { 0 }, figure_limited_channels, "what", "channels" },
	{ { 0 }, figure_limited_publishes, "what", "publishes" },
	{ { "tidemq_connections_limit", EXPOSITION_GAUGE,
	    "Connections that may be open at once." },
	  figure_connections_limit,
	  NULL,
	  NULL },
	{ { "tidemq_connections_accepted", EXPOSITION_COUNTER, "Connections accepted." },
	  figure_connections_accepted,
	  NULL,
	  NULL },
	{ { "tidemq_connections_refused", EXPOSITION_COUNTER,
	    "Of these, those refused at a limit." },
	  figure_connections_refused,
	  NULL,
	  NULL },
	{ { "tidemq_received_bytes", EXPOSITION_COUNTER,
	    "Bytes received on all connections." },
	  figure_received_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_sent_bytes", EXPOSITION_COUNTER, "Bytes sent on all connections." },
	  figure_sent_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_tls_handshakes", EXPOSITION_COUNTER,
	    "Handshakes of TLS that succeeded." },
	  figure_tls_handshakes,
	  NULL,
	  NULL },
	{ { "tidemq_tls_failures", EXPOSITION_COUNTER,
	    "Connections that TLS ended, in the handshake or later." },
	  figure_tls_failures,
	  NULL,
	  NULL },
	{ { "tidemq_log_appended", EXPOSITION_COUNTER,
	    "Messages appended to partitions of topics." },
	  figure_log_appended,
	  NULL,
	  NULL },
	{ { "tidemq_log_batches", EXPOSITION_COUNTER, "Record batches written." },
	  figure_log_batches,
	  NULL,
	  NULL },
	{ { "tidemq_log_refused", EXPOSITION_COUNTER,
	    "Messages whose append Redis refused." },
	  figure_log_refused,
	  NULL,
	  NULL },
	{ { "tidemq_log_merged_batches", EXPOSITION_COUNTER,
	    "Record batches merged into larger ones." },
	  figure_log_merged_batches,
	  NULL,
	  NULL },
	{ { "tidemq_log_compacted", EXPOSITION_COUNTER,
	    "Messages that compaction has removed." },
	  figure_log_compacted,
	  NULL,
	  NULL },
	{ { "tidemq_log_read_batches", EXPOSITION_COUNTER,
	    "Record batches read from Redis." },
	  figure_log_read_batches,
	  NULL,
	  NULL },
	{ { "tidemq_log_unstored_bytes", EXPOSITION_GAUGE,
	    "Messages of topics that are not durable yet." },
	  figure_log_unstored_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_log_tail_bytes", EXPOSITION_GAUGE,
	    "The newest messages of durable topics, in memory." },
	  figure_log_tail_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_log_memory_bytes", EXPOSITION_GAUGE,
	    "The messages of topics with durable=0." },
	  figure_log_memory_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_store_up", EXPOSITION_GAUGE,
	    "1: Redis answers, or there is none (--store none)." },
	  figure_store_up,
	  NULL,
	  NULL },
	{ { "tidemq_store_requests", EXPOSITION_COUNTER, "Requests to Redis." },
	  figure_store_requests,
	  NULL,
	  NULL },
	{ { "tidemq_store_commands", EXPOSITION_COUNTER, "Commands in these requests." },
	  figure_store_commands,
	  NULL,
	  NULL },
	{ { "tidemq_store_transactions", EXPOSITION_COUNTER,
	    "Transactions that write messages of queues." },
	  figure_store_transactions,
	  NULL,
	  NULL },
	{ { "tidemq_store_reconnects", EXPOSITION_COUNTER,
	    "Connections to Redis after the first." },
	  figure_store_reconnects,
	  NULL,
	  NULL },
	{ { "tidemq_store_sent_bytes", EXPOSITION_COUNTER, "Bytes sent to Redis." },
	  figure_store_sent_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_store_pending_requests", EXPOSITION_GAUGE,
	    "Requests that Redis has not answered." },
	  figure_store_pending_requests,
	  NULL,
	  NULL },
	{ { "tidemq_store_pending_bytes", EXPOSITION_GAUGE, "Their size." },
	  figure_store_pending_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_store_flushes", EXPOSITION_COUNTER, "Batches of changes written." },
	  figure_store_flushes,
	  NULL,
	  NULL },
	{ { "tidemq_store_inserted", EXPOSITION_COUNTER, "Messages written." },
	  figure_store_inserted,
	  NULL,
	  NULL },
	{ { "tidemq_store_removed", EXPOSITION_COUNTER, "Messages removed from Redis." },
	  figure_store_removed,
	  NULL,
	  NULL },
	{ { "tidemq_store_elided", EXPOSITION_COUNTER,
	    "Messages acknowledged before they were written." },
	  figure_store_elided,
	  NULL,
	  NULL },
	{ { "tidemq_store_refused_publishes", EXPOSITION_COUNTER,
	    "Publishes that Redis refused." },
	  figure_store_refused_publishes,
	  NULL,
	  NULL },
	{ { "tidemq_store_unstored_bytes", EXPOSITION_GAUGE,
	    "Messages of queues that are not durable yet." },
	  figure_store_unstored_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_store_unstored_limit_bytes", EXPOSITION_GAUGE,
	    "From here on, with topics, publishers are held back." },
	  figure_store_unstored_limit_bytes,
	  NULL,
	  NULL },
	{ { "tidemq_loop_turn_max_seconds", EXPOSITION_GAUGE,
	    "The longest turn of the event loop since the start." },
	  figure_loop_turn_max_seconds,
	  NULL,
	  NULL },
	{ { "process_cpu_seconds", EXPOSITION_COUNTER,
	    "Processor time of the broker, in the program and in the kernel." },
	  figure_process_cpu_seconds,
	  NULL,
	  NULL },
	{ { "process_resident_memory_bytes", EXPOSITION_GAUGE, "Resident memory." },
	  figure_process_resident_memory_bytes,
	  NULL,
	  NULL },
	{ { "process_virtual_memory_bytes", EXPOSITION_GAUGE, "Virtual memory." },
	  figure_process_virtual_memory_bytes,
	  NULL,
	  NULL },
	{ { "process_max_fds", EXPOSITION_GAUGE, "Descriptors that may be open." },
	  figure_process_max_fds,
	  NULL,
	  NULL },
	{ { "process_start_time_seconds", EXPOSITION_GAUGE,
	    "When the broker began, since 1970." },
	  figure_process_start_time_seconds,
	  NULL,
	  NULL },
};

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

static struct exposition_label label(const char *name, const char *value)
{
	return (struct exposition_label){ name, slice_from(value) };
}

static void write_figures(struct exposition *e, const struct facts *f,
			  const struct figure *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct exposition_label one;

		if (rows[i].family.name)
			exposition_family(e, &rows[i].family);
		if (rows[i].label)
			one = label(rows[i].label, rows[i].label_value);
		exposition_sample(e, &one, rows[i].label != NULL, rows[i].value(f));
	}
}

static void write_build(struct exposition *e, const struct facts *f)
{
	static const struct exposition_family family = {
		"tidemq_build", EXPOSITION_INFO, "The broker: its version and number."
	};
	char node[16];
	struct exposition_label labels[] = { label("version", TIDE_VERSION),
					     label("node", node) };

	snprintf(node, sizeof(node), "%u", f->broker->config.node);
	labels[1] = label("node", node);
	exposition_family(e, &family);
	exposition_sample(e, labels, 2, 1);
}

static void write_connections(struct exposition *e, const struct service *s)
{
	static const struct exposition_family family = {
		"tidemq_connections", EXPOSITION_GAUGE, "Open connections, by protocol."
	};
	const struct net_protocol *p = s->protocols;

	exposition_family(e, &family);
	for (unsigned i = 0; i < NET_PROTOCOLS_MAX && p[i].name; i++) {
		struct exposition_label one = label("protocol", p[i].name);

		exposition_sample(e, &one, 1, p[i].open);
	}
}

static void write_store(struct exposition *e, const struct facts *f)
{
	static const struct exposition_family info = { "tidemq_store", EXPOSITION_INFO,
						       "Redis." };
	static const struct exposition_family refused = {
		"tidemq_store_refused_requests", EXPOSITION_COUNTER,
		"Requests that Redis refused, by reason."
	};
	static const struct exposition_family round_trip = {
		"tidemq_store_round_trip_seconds", EXPOSITION_HISTOGRAM,
		"From a request to the answer of Redis."
	};
	static const struct exposition_family changes = {
		"tidemq_store_flush_changes", EXPOSITION_HISTOGRAM,
		"Messages that each batch writes, moves or removes."
	};
	static const struct exposition_family memory = {
		"tidemq_store_memory_bytes", EXPOSITION_GAUGE,
		"Memory of Redis, as it told at the scrape before."
	};
	static const struct exposition_family limit = {
		"tidemq_store_memory_limit_bytes", EXPOSITION_GAUGE,
		"What Redis may take (maxmemory); 0: no limit."
	};
	const struct store_stats *st = &f->store;
	const struct exposition_label labels[] = { label("kind", st->kind),
						   label("address", st->address),
						   label("version", st->version) };

	exposition_family(e, &info);
	exposition_sample(e, labels, 3, 1);
	exposition_family(e, &refused);
	for (unsigned i = 0; i < STORE_REFUSALS; i++) {
		struct exposition_label one =
			label("reason", store_refusal_name((enum store_refusal)i));

		exposition_sample(e, &one, 1, (double)st->refused[i]);
	}
	exposition_family(e, &round_trip);
	exposition_tally(e, NULL, 0, &st->round_trip, tally_times_ns, 1e9);
	exposition_family(e, &changes);
	exposition_tally(e, NULL, 0, &f->journal->changes, tally_sizes, 1);
	exposition_family(e, &memory);
	if (st->memory_bytes)
		exposition_sample(e, NULL, 0, (double)st->memory_bytes);
	exposition_family(e, &limit);
	if (st->memory_bytes)
		exposition_sample(e, NULL, 0, (double)st->memory_max_bytes);
}

static void write_process(struct exposition *e, const struct facts *f)
{
	static const struct exposition_family turns = {
		"tidemq_loop_turn_seconds", EXPOSITION_HISTOGRAM,
		"Turns of the event loop: how long it did not look at its sockets."
	};
	static const struct exposition_family fds = { "process_open_fds",
						      EXPOSITION_GAUGE,
						      "Open descriptors." };

	exposition_family(e, &turns);
	exposition_tally(e, NULL, 0, &f->broker->turn_time.busy, tally_times_ns, 1e9);
	exposition_family(e, &fds);
	if (f->usage.fds)
		exposition_sample(e, NULL, 0, (double)f->usage.fds);
}

void metrics_broker_write(struct service *s, struct exposition *e)
{
	struct facts f = { .service = s, .broker = s->broker };

	f.journal = journal_stats(s->broker->journal);
	store_memory_ask(s->broker->store);
	store_stats(s->broker->store, &f.store);
	usage_read(&f.usage);
	write_build(e, &f);
	write_connections(e, s);
	write_figures(e, &f, broker_figures, COUNT_OF(broker_figures));
	write_store(e, &f);
	write_process(e, &f);
}

static double vhost_queues(const struct vhost *v)
{
	return HASH_COUNT(v->queues) - v->topic_count;
}

static double vhost_topics(const struct vhost *v)
{
	return v->topic_count;
}

static double vhost_exchanges(const struct vhost *v)
{
	return HASH_COUNT(v->exchanges);
}

static double vhost_sessions(const struct vhost *v)
{
	return v->sessions;
}

static double vhost_unroutable(const struct vhost *v)
{
	return (double)v->unroutable.count;
}

void metrics_broker_write_vhosts(struct service *s, struct exposition *e)
{
	static const struct {
		struct exposition_family family;
		double (*value)(const struct vhost *v);
	} rows[] = {
		{ { "tidemq_queues", EXPOSITION_GAUGE, "Queues." }, vhost_queues },
		{ { "tidemq_topics", EXPOSITION_GAUGE, "Topics." }, vhost_topics },
		{ { "tidemq_exchanges", EXPOSITION_GAUGE, "Exchanges." },
		  vhost_exchanges },
		{ { "tidemq_vhost_connections", EXPOSITION_GAUGE,
		    "Connections that work in the vhost." },
		  vhost_sessions },
		{ { "tidemq_default_exchange_unroutable", EXPOSITION_COUNTER,
		    "Publishes to the default exchange that no queue took." },
		  vhost_unroutable },
	};
	const struct vhost *v;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		exposition_family(e, &rows[i].family);
		for (v = s->broker->vhosts; v; v = v->hh.next) {
			struct exposition_label one = { "vhost", vhost_slice(v) };

			exposition_sample(e, &one, 1, rows[i].value(v));
		}
	}
}
