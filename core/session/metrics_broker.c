#include "metrics_broker.h"

#include "broker/exchange.h"
#include "host/usage.h"
#include "service_pressure.h"
#include "service_users.h"
#include "session_private.h"
#include "warnings.h"
#include "shard/dedupe.h"

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

static void write_messages(struct exposition *e, const struct service *s)
{
	const struct broker *b = s->broker;
	const struct broker_counters *n = &b->counters;

	exposition_gauge(e, "tidemq_unusable",
			 "Exchanges, queues and topics that cannot be used.",
			 b->unusable);
	exposition_gauge(e, "tidemq_blocked",
			 "1: publishers and schedules are held back.", s->is_blocked);
	exposition_gauge(e, "tidemq_draining", "1: publishes are refused (DRAIN).",
			 b->refuses_publishes);
	exposition_counter(
		e, "tidemq_published",
		"Accepted publishes, with repetitions and the copies of filters.",
		n->published);
	exposition_counter(e, "tidemq_routed",
			   "Copies of messages that queues and topics took.", n->routed);
	exposition_counter(e, "tidemq_unroutable", "Publishes that no queue took.",
			   n->unroutable);
	exposition_counter(e, "tidemq_duplicates",
			   "Copies not taken because their id had been seen.",
			   n->duplicates);
	exposition_counter(e, "tidemq_delivered", "Deliveries to consumers.",
			   n->delivered);
	exposition_counter(e, "tidemq_acked", "Messages acknowledged.", n->acked);
	exposition_counter(e, "tidemq_failed", "Deliveries that failed.", n->failed);
	exposition_counter(e, "tidemq_paced", "Returns that had to wait.", n->paced);
	exposition_counter(e, "tidemq_dead_lettered",
			   "Messages sent to a dead-letter target.", n->dead_lettered);
	exposition_counter(e, "tidemq_death_limited",
			   "Messages buried because they had died too often.",
			   n->death_limited);
}

static void write_warnings(struct exposition *e, const struct service *s)
{
	begin(e, EXPOSITION_GAUGE, "tidemq_warnings",
	      "Things that somebody should look after, by code.");
	for (unsigned i = 0; warnings_code(i); i++)
		sample(e, "code", warnings_code(i), warnings_count(s->warnings, i));
}

static void write_memory(struct exposition *e, const struct service *s)
{
	const struct broker *b = s->broker;

	exposition_gauge(e, "tidemq_memory_bytes", "Messages in memory.",
			 service_pressure_memory(s));
	exposition_gauge(e, "tidemq_memory_limit_bytes",
			 "From here on publishers are held back.",
			 b->config.memory_max_bytes);
	exposition_gauge(e, "tidemq_dedupe_memory_bytes", "Publish ids in memory.",
			 dedupe_bytes(b->dedupe));
	exposition_gauge(e, "tidemq_dedupe_memory_limit_bytes",
			 "What publish ids may take.", b->config.dedupe_max_bytes);
	exposition_gauge(e, "tidemq_routes_memory_bytes", "Remembered routes.",
			 b->route_bytes);
}

static void write_transactions(struct exposition *e, const struct service *s)
{
	exposition_gauge(e, "tidemq_transactions_open",
			 "Transactions begun and not ended.", s->transactions.open);
	exposition_gauge(e, "tidemq_transactions_bytes", "What they keep.",
			 s->transactions.bytes);
	begin(e, EXPOSITION_COUNTER, "tidemq_transactions",
	      "Transactions that ended, by outcome.");
	sample(e, "outcome", "committed", s->transactions.committed);
	sample(e, "outcome", "failed", s->transactions.failed);
	sample(e, "outcome", "rolled_back", s->transactions.rolled_back);
}

static void write_users(struct exposition *e, const struct service *s)
{
	exposition_gauge(e, "tidemq_users", "Users that are defined.",
			 users_count(&s->broker->users));
	exposition_gauge(e, "tidemq_anonymous", "1: nobody has to log in.",
			 service_users_is_open(s));
	begin(e, EXPOSITION_COUNTER, "tidemq_logins", "Logins, by outcome.");
	sample(e, "outcome", "accepted", s->login.counters.accepted);
	sample(e, "outcome", "refused", s->login.counters.refused);
	exposition_counter(e, "tidemq_passwords_hashed",
			   "Passwords hashed, to verify or to set them.",
			   s->password_work.count);
	begin(e, EXPOSITION_COUNTER, "tidemq_limited",
	      "What was refused at a limit of a user or an address.");
	sample(e, "what", "connections", s->allowances.refused.connections);
	sample(e, "what", "channels", s->allowances.refused.channels);
	sample(e, "what", "publishes", s->allowances.refused.publishes);
}

static void write_net(struct exposition *e, const struct service *s)
{
	exposition_gauge(e, "tidemq_connections_limit",
			 "Connections that may be open at once.", s->net.limit);
	exposition_counter(e, "tidemq_connections_accepted", "Connections accepted.",
			   s->net.accepted);
	exposition_counter(e, "tidemq_connections_refused",
			   "Of these, those refused at a limit.", s->net.refused);
	exposition_counter(e, "tidemq_received_bytes",
			   "Bytes received on all connections.", s->net.bytes_in);
	exposition_counter(e, "tidemq_sent_bytes", "Bytes sent on all connections.",
			   s->net.bytes_out);
	exposition_counter(e, "tidemq_tls_handshakes",
			   "Handshakes of TLS that succeeded.", s->net.tls_handshakes);
	exposition_counter(e, "tidemq_tls_failures",
			   "Connections that TLS ended, in the handshake or later.",
			   s->net.tls_failures);
}

static void write_log(struct exposition *e, const struct partition_env *p)
{
	exposition_counter(e, "tidemq_log_appended",
			   "Messages appended to partitions of topics.",
			   p->stats.appended);
	exposition_counter(e, "tidemq_log_batches", "Record batches written.",
			   p->stats.batches);
	exposition_counter(e, "tidemq_log_refused",
			   "Messages whose append Redis refused.", p->stats.refused);
	exposition_counter(e, "tidemq_log_merged_batches",
			   "Record batches merged into larger ones.", p->stats.merged);
	exposition_counter(e, "tidemq_log_compacted",
			   "Messages that compaction has removed.", p->stats.compacted);
	exposition_counter(e, "tidemq_log_read_batches",
			   "Record batches read from Redis.", p->stats.read_batches);
	exposition_gauge(e, "tidemq_log_unstored_bytes",
			 "Messages of topics that are not durable yet.",
			 p->unstored_bytes);
	exposition_gauge(e, "tidemq_log_tail_bytes",
			 "The newest messages of durable topics, in memory.",
			 p->tail_bytes);
	exposition_gauge(e, "tidemq_log_memory_bytes",
			 "The messages of topics with durable=0.", p->memory_bytes);
}

static void write_requests(struct exposition *e, const struct store_stats *st)
{
	exposition_counter(e, "tidemq_store_requests", "Requests to Redis.",
			   st->requests);
	exposition_counter(e, "tidemq_store_commands", "Commands in these requests.",
			   st->commands);
	exposition_counter(e, "tidemq_store_transactions",
			   "Transactions that write messages of queues.",
			   st->transactions);
	exposition_counter(e, "tidemq_store_reconnects",
			   "Connections to Redis after the first.", st->reconnects);
	exposition_counter(e, "tidemq_store_sent_bytes", "Bytes sent to Redis.",
			   st->bytes_sent);
	exposition_gauge(e, "tidemq_store_pending_requests",
			 "Requests that Redis has not answered.", st->pending_requests);
	exposition_gauge(e, "tidemq_store_pending_bytes", "Their size.",
			 st->pending_bytes);
}

static void write_flushes(struct exposition *e, const struct journal_stats *j)
{
	exposition_counter(e, "tidemq_store_flushes", "Batches of changes written.",
			   j->flushes);
	exposition_counter(e, "tidemq_store_inserted", "Messages written.", j->inserted);
	exposition_counter(e, "tidemq_store_removed", "Messages removed from Redis.",
			   j->removed);
	exposition_counter(e, "tidemq_store_elided",
			   "Messages acknowledged before they were written.", j->elided);
	exposition_counter(e, "tidemq_store_refused_publishes",
			   "Publishes that Redis refused.", j->refused);
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
	begin(e, EXPOSITION_GAUGE, "tidemq_store_memory_bytes",
	      "Memory of Redis, as it told at the scrape before.");
	if (st->memory_bytes)
		exposition_sample(e, NULL, 0, (double)st->memory_bytes);
	begin(e, EXPOSITION_GAUGE, "tidemq_store_memory_limit_bytes",
	      "What Redis may take (maxmemory); 0: no limit.");
	if (st->memory_bytes)
		exposition_sample(e, NULL, 0, (double)st->memory_max_bytes);
}

static void write_store(struct exposition *e, const struct broker *b)
{
	const struct journal_stats *j = journal_stats(b->journal);
	struct store_stats st;

	store_memory_ask(b->store);
	store_stats(b->store, &st);
	const struct exposition_label labels[] = {
		exposition_text("kind", st.kind),
		exposition_text("address", st.address),
		exposition_text("version", st.version),
	};
	begin(e, EXPOSITION_INFO, "tidemq_store", "Redis.");
	exposition_sample(e, labels, 3, 1);
	exposition_gauge(e, "tidemq_store_up",
			 "1: Redis answers, or there is none (--store none).",
			 store_state(b->store) == STORE_UP &&
				 !store_has_trouble(b->store, STORE_TROUBLE_SILENT));
	begin(e, EXPOSITION_GAUGE, "tidemq_store_trouble",
	      "1: something is wrong with Redis, by kind.");
	for (unsigned i = 0; i < STORE_TROUBLES; i++)
		sample(e, "kind", store_trouble_name((enum store_trouble)i),
		       store_has_trouble(b->store, (enum store_trouble)i));
	write_requests(e, &st);
	write_flushes(e, j);
	exposition_gauge(e, "tidemq_store_unstored_bytes",
			 "Messages of queues that are not durable yet.",
			 b->env.unstored_bytes);
	exposition_gauge(e, "tidemq_store_unstored_limit_bytes",
			 "From here on, with topics, publishers are held back.",
			 b->config.unstored_max_bytes);
	begin(e, EXPOSITION_COUNTER, "tidemq_store_refused_requests",
	      "Requests that Redis refused, by reason.");
	for (unsigned i = 0; i < STORE_REFUSALS; i++)
		sample(e, "reason", store_trouble_name((enum store_trouble)i),
		       st.refused[i]);
	write_round_trips(e, &st, j);
}

static void write_process(struct exposition *e, const struct broker *b)
{
	const struct tally *turns = &b->turn_time.busy;
	struct usage u;

	usage_read(&u);
	exposition_gauge(e, "tidemq_loop_turn_max_seconds",
			 "The longest turn of the event loop since the start.",
			 (double)turns->max / 1e9);
	exposition_counter(
		e, "process_cpu_seconds",
		"Processor time of the broker, in the program and in the kernel.",
		(double)u.cpu_us / 1e6);
	exposition_gauge(e, "process_resident_memory_bytes", "Resident memory.",
			 u.resident_bytes);
	exposition_gauge(e, "process_virtual_memory_bytes", "Virtual memory.",
			 u.virtual_bytes);
	exposition_gauge(e, "process_max_fds", "Descriptors that may be open.",
			 u.fds_max);
	exposition_gauge(e, "process_start_time_seconds",
			 "When the broker began, since 1970.",
			 (double)b->started_unix_ms / 1000);
	begin(e, EXPOSITION_HISTOGRAM, "tidemq_loop_turn_seconds",
	      "Turns of the event loop: how long it did not look at its sockets.");
	exposition_tally(e, NULL, 0, turns, tally_times_ns, 1e9);
	begin(e, EXPOSITION_GAUGE, "process_open_fds", "Open descriptors.");
	if (u.fds)
		exposition_sample(e, NULL, 0, (double)u.fds);
}

void metrics_broker_write(struct service *s, struct exposition *e)
{
	write_build(e, s->broker);
	write_connections(e, s);
	write_messages(e, s);
	write_warnings(e, s);
	write_memory(e, s);
	write_transactions(e, s);
	write_users(e, s);
	write_net(e, s);
	write_log(e, &s->broker->partitions);
	write_store(e, s->broker);
	write_process(e, s->broker);
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
