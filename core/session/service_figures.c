#include "service_figures.h"

#include <math.h>
#include <string.h>

#include "log/partition.h"
#include "service.h"
#include "service_users.h"
#include "session_private.h"
#include "shard/dedupe.h"

/* clang-format off */
/* ROW(object of STATS, function, name in it, metric, kind, expression, help)
 * PART(object, function, name, metric, label, expression, help) is a counter of a metric
 * of several series; the name is the label's value. The first of a metric has the help. */
#define ROWS(ROW, PART) \
ROW("", node,          "node",          NULL,                   GAUGE,   b->config.node,                        NULL) \
ROW("", uptime,        "uptime_ms",     NULL,                   GAUGE,   b->now_ms - b->started_unix_ms,        NULL) \
ROW("", connections,   "connections",   NULL,                   GAUGE,   m->connections,                        NULL) \
ROW("", vhosts,        "vhosts",        NULL,                   GAUGE,   HASH_COUNT(b->vhosts),                 NULL) \
ROW("", exchanges,     "exchanges",     NULL,                   GAUGE,   m->exchanges,                          NULL) \
ROW("", queues,        "queues",        NULL,                   GAUGE,   m->queues,                             NULL) \
ROW("", topics,        "topics",        NULL,                   GAUGE,   m->topics,                             NULL) \
ROW("", unusable,      "unusable",      "tidemq_unusable",      GAUGE,   b->unusable,                           "Exchanges, queues and topics that cannot be used.") \
ROW("", published,     "published",     "tidemq_published",     COUNTER, b->counters.published,                 "Accepted publishes, with repetitions and the copies of filters.") \
ROW("", routed,        "routed",        "tidemq_routed",        COUNTER, b->counters.routed,                    "Copies of messages that queues and topics took.") \
ROW("", unroutable,    "unroutable",    "tidemq_unroutable",    COUNTER, b->counters.unroutable,                "Publishes that no queue took.") \
ROW("", duplicates,    "duplicates",    "tidemq_duplicates",    COUNTER, b->counters.duplicates,                "Copies not taken because their id had been seen.") \
ROW("", delivered,     "delivered",     "tidemq_delivered",     COUNTER, b->counters.delivered,                 "Deliveries to consumers.") \
ROW("", acked,         "acked",         "tidemq_acked",         COUNTER, b->counters.acked,                     "Messages acknowledged.") \
ROW("", failed,        "failed",        "tidemq_failed",        COUNTER, b->counters.failed,                    "Deliveries that failed.") \
ROW("", paced,         "paced",         "tidemq_paced",         COUNTER, b->counters.paced,                     "Returns that had to wait.") \
ROW("", dead_lettered, "dead_lettered", "tidemq_dead_lettered", COUNTER, b->counters.dead_lettered,             "Messages sent to a dead-letter target.") \
ROW("", death_limited, "death_limited", "tidemq_death_limited", COUNTER, b->counters.death_limited,             "Messages buried because they had died too often.") \
ROW("", memory,        "memory_bytes",  "tidemq_memory_bytes",  GAUGE,   service_pressure_memory(s),            "Messages in memory.") \
ROW("", memory_limit,  NULL,            "tidemq_memory_limit_bytes", GAUGE, b->config.memory_max_bytes,          "From here on publishers are held back.") \
ROW("", dedupe_memory, "dedupe_bytes",  "tidemq_dedupe_memory_bytes", GAUGE, dedupe_bytes(b->dedupe),            "Publish ids in memory.") \
ROW("", dedupe_limit,  NULL,            "tidemq_dedupe_memory_limit_bytes", GAUGE, b->config.dedupe_max_bytes,   "What publish ids may take.") \
ROW("", routes_memory, "routes_bytes",  "tidemq_routes_memory_bytes", GAUGE, b->route_bytes,                     "Remembered routes.") \
ROW("", blocked,       "blocked",       "tidemq_blocked",       FLAG,    s->is_blocked,                         "1: publishers and schedules are held back.") \
ROW("", draining,      "draining",      "tidemq_draining",      FLAG,    b->refuses_publishes,                  "1: publishes are refused (DRAIN).") \
ROW("", generation,    "rules_generation", NULL,                GAUGE,   engine_epoch(b->engine),               NULL) \
ROW("", slow_turns,    "slow_turns",    NULL,                   COUNTER, b->turn_time.slow,                     NULL) \
ROW("transactions", open,        "open",        "tidemq_transactions_open",  GAUGE, s->transactions.open,          "Transactions begun and not ended.") \
ROW("transactions", kept,        "bytes",       "tidemq_transactions_bytes", GAUGE, s->transactions.bytes,         "What they keep.") \
PART("transactions", committed,   "committed",   "tidemq_transactions", "outcome", s->transactions.committed,   "Transactions that ended, by outcome.") \
PART("transactions", uncommitted, "failed",      "tidemq_transactions", "outcome", s->transactions.failed,      NULL) \
PART("transactions", rolled_back, "rolled_back", "tidemq_transactions", "outcome", s->transactions.rolled_back, NULL) \
ROW("logins", users,      "users",      "tidemq_users",                    GAUGE,   users_count(&b->users),      "Users that are defined.") \
ROW("logins", anonymous,  "open",       "tidemq_anonymous",                FLAG,    service_users_is_open(s),    "1: nobody has to log in.") \
PART("logins", accepted,   "accepted",   "tidemq_logins", "outcome", s->login.counters.accepted,  "Logins, by outcome.") \
PART("logins", denied,     "refused",    "tidemq_logins", "outcome", s->login.counters.refused,   NULL) \
ROW("logins", remembered, "remembered", NULL,                              COUNTER, s->login.counters.remembered, NULL) \
ROW("logins", hashed,     "hashed",     "tidemq_passwords_hashed",         COUNTER, s->password_work.count,      "Passwords hashed, to verify or to set them.") \
PART("limited", no_connection, "connections", "tidemq_limited", "what", s->allowances.refused.connections, "What was refused at a limit of a user or an address.") \
PART("limited", no_channel,    "channels",    "tidemq_limited", "what", s->allowances.refused.channels,    NULL) \
PART("limited", no_publish,    "publishes",   "tidemq_limited", "what", s->allowances.refused.publishes,   NULL) \
ROW("logs", appended,     "appended",     "tidemq_log_appended",       COUNTER, b->partitions.stats.appended,     "Messages appended to partitions of topics.") \
ROW("logs", batches,      "batches",      "tidemq_log_batches",        COUNTER, b->partitions.stats.batches,      "Record batches written.") \
ROW("logs", no_append,    "refused",      "tidemq_log_refused",        COUNTER, b->partitions.stats.refused,      "Messages whose append Redis refused.") \
ROW("logs", merged,       "merged",       "tidemq_log_merged_batches", COUNTER, b->partitions.stats.merged,       "Record batches merged into larger ones.") \
ROW("logs", compacted,    "compacted",    "tidemq_log_compacted",      COUNTER, b->partitions.stats.compacted,    "Messages that compaction has removed.") \
ROW("logs", read_batches, "read_batches", "tidemq_log_read_batches",   COUNTER, b->partitions.stats.read_batches, "Record batches read from Redis.") \
ROW("logs", log_unstored, "unstored_bytes", "tidemq_log_unstored_bytes", GAUGE, b->partitions.unstored_bytes,     "Messages of topics that are not durable yet.") \
ROW("logs", tail,         "tail_bytes",   "tidemq_log_tail_bytes",     GAUGE,   b->partitions.tail_bytes,         "The newest messages of durable topics, in memory.") \
ROW("logs", log_memory,   "memory_bytes", "tidemq_log_memory_bytes",   GAUGE,   b->partitions.memory_bytes,       "The messages of topics with durable=0.") \
ROW("net", net_limit,    NULL,             "tidemq_connections_limit",    GAUGE,   s->net.limit,          "Connections that may be open at once.") \
ROW("net", net_accepted, "accepted",       "tidemq_connections_accepted", COUNTER, s->net.accepted,       "Connections accepted.") \
ROW("net", net_refused,  "refused",        "tidemq_connections_refused",  COUNTER, s->net.refused,        "Of these, those refused at a limit.") \
ROW("net", bytes_in,     "bytes_in",       "tidemq_received_bytes",       COUNTER, s->net.bytes_in,       "Bytes received on all connections.") \
ROW("net", bytes_out,    "bytes_out",      "tidemq_sent_bytes",           COUNTER, s->net.bytes_out,      "Bytes sent on all connections.") \
ROW("net", handshakes,   "tls_handshakes", "tidemq_tls_handshakes",       COUNTER, s->net.tls_handshakes, "Handshakes of TLS that succeeded.") \
ROW("net", tls_failures, "tls_failures",   "tidemq_tls_failures",         COUNTER, s->net.tls_failures,   "Connections that TLS ended, in the handshake or later.") \
ROW("process", resident,  "resident_bytes", "process_resident_memory_bytes", GAUGE, m->usage.resident_bytes,      "Resident memory.") \
ROW("process", virtual,   "virtual_bytes",  "process_virtual_memory_bytes",  GAUGE, m->usage.virtual_bytes,       "Virtual memory.") \
ROW("process", cpu_ms,    "cpu_ms",         NULL,                         COUNTER, m->usage.cpu_us / 1000,       NULL) \
ROW("process", cpu,       NULL,             "process_cpu_seconds",        COUNTER, (double)m->usage.cpu_us / 1e6, "Processor time of the broker, in the program and in the kernel.") \
ROW("process", fds,       "fds",            "process_open_fds",             GAUGE, known(m->usage.fds),          "Open descriptors.") \
ROW("process", fds_max,   "fds_max",        "process_max_fds",              GAUGE, m->usage.fds_max,             "Descriptors that may be open.") \
ROW("process", started,   NULL,             "process_start_time_seconds",   GAUGE, (double)b->started_unix_ms / 1000, "When the broker began, since 1970.") \
ROW("process", longest,   NULL,             "tidemq_loop_turn_max_seconds", GAUGE, (double)b->turn_time.busy.max / 1e9, "The longest turn of the event loop since the start.") \
ROW("store", up,          NULL,               "tidemq_store_up",            FLAG,    store_state(b->store) == STORE_UP && !store_has_trouble(b->store, STORE_TROUBLE_SILENT), "1: Redis answers, or there is none (--store none).") \
ROW("store", requests,    "requests",         "tidemq_store_requests",      COUNTER, m->store.requests,         "Requests to Redis.") \
ROW("store", commands,    "commands",         "tidemq_store_commands",      COUNTER, m->store.commands,         "Commands in these requests.") \
ROW("store", writes,      "transactions",     "tidemq_store_transactions",  COUNTER, m->store.transactions,     "Transactions that write messages of queues.") \
ROW("store", reconnects,  "reconnects",       "tidemq_store_reconnects",    COUNTER, m->store.reconnects,       "Connections to Redis after the first.") \
ROW("store", bytes_sent,  "bytes_sent",       "tidemq_store_sent_bytes",    COUNTER, m->store.bytes_sent,       "Bytes sent to Redis.") \
ROW("store", pending,     "pending_requests", "tidemq_store_pending_requests", GAUGE, m->store.pending_requests, "Requests that Redis has not answered.") \
ROW("store", pending_bytes, NULL,             "tidemq_store_pending_bytes",   GAUGE, m->store.pending_bytes,     "Their size.") \
ROW("store", flushes,     "flushes",          "tidemq_store_flushes",       COUNTER, m->journal->flushes,       "Batches of changes written.") \
ROW("store", inserted,    "inserted",         "tidemq_store_inserted",      COUNTER, m->journal->inserted,      "Messages written.") \
ROW("store", removed,     "removed",          "tidemq_store_removed",       COUNTER, m->journal->removed,       "Messages removed from Redis.") \
ROW("store", elided,      "elided",           "tidemq_store_elided",        COUNTER, m->journal->elided,        "Messages acknowledged before they were written.") \
ROW("store", refused,     "refused",          "tidemq_store_refused_publishes", COUNTER, m->journal->refused,   "Publishes that Redis refused.") \
ROW("store", unstored,    "unstored_bytes",   "tidemq_store_unstored_bytes", GAUGE,  b->env.unstored_bytes,     "Messages of queues that are not durable yet.") \
ROW("store", unstored_limit, NULL,            "tidemq_store_unstored_limit_bytes", GAUGE, b->config.unstored_max_bytes, "From here on, with topics, publishers are held back.") \
ROW("store", redis_memory,   "memory_bytes",  "tidemq_store_memory_bytes",  GAUGE,   known(m->store.memory_bytes), "Memory of Redis, as it told at the scrape before.") \
ROW("store", redis_max,      "memory_max_bytes", NULL,                     GAUGE,   known(m->store.memory_max_bytes), NULL) \
ROW("store", redis_limit, NULL,               "tidemq_store_memory_limit_bytes", GAUGE, m->store.memory_bytes ? (double)m->store.memory_max_bytes : NAN, "What Redis may take (maxmemory); 0: no limit.") \
ROW("store", sentinels,   "sentinels",        "tidemq_store_sentinels",     GAUGE,   m->store.sentinels_known ? (double)m->store.sentinels : NAN, "Sentinels that answer.") \
ROW("store", slots_held,  "slots_held",       "tidemq_store_slots_held",    GAUGE,   m->store.is_cluster ? (double)m->store.slots_held : NAN, "Slots of a Redis Cluster whose requests wait: they are being moved, or have no master.") \
ROW("store", no_master,   "slots_without_master", "tidemq_store_slots_without_master", GAUGE, m->store.is_cluster ? (double)m->store.slots_without_master : NAN, "Slots of a Redis Cluster that no master has.")

/* ROW(function, name in STATS, metric, kind, expression, help), of a master of the store */
#define MASTER_ROWS(ROW) \
ROW(master_up,       "up",               "tidemq_store_master_up",                FLAG,  m->is_up,             "1: this Redis answers.") \
ROW(master_slots,    "slots",            "tidemq_store_master_slots",             GAUGE, known(m->slots),      "Slots that this master of a Redis Cluster has.") \
ROW(master_pending,  "pending_requests", "tidemq_store_master_pending_requests",  GAUGE, m->pending_requests,  "Requests that this Redis has not answered.") \
ROW(master_bytes,    "pending_bytes",    "tidemq_store_master_pending_bytes",     GAUGE, m->pending_bytes,     "Their size.") \
ROW(master_replicas, "replicas",         "tidemq_store_master_replicas",          GAUGE, m->replicas,          "Replicas that follow this Redis.") \
ROW(master_lag,      "lag_bytes",        "tidemq_store_master_replica_lag_bytes", GAUGE, m->replicas ? (double)m->lag_bytes : NAN, "What the slowest of them lacks.") \
ROW(master_reconnects, "reconnects",     "tidemq_store_master_reconnects",      COUNTER, m->reconnects,        "Connections to this Redis after the first.") \
ROW(master_trip,     "round_trip_us",    NULL,                                    GAUGE, known(m->round_trip_ns / 1000), NULL) \
ROW(master_memory,   "memory_bytes",     "tidemq_store_master_memory_bytes",      GAUGE, known(m->memory_bytes), "Memory of this Redis, as it told last.") \
ROW(master_max,      "memory_max_bytes", "tidemq_store_master_memory_limit_bytes", GAUGE, known(m->memory_max_bytes), "What it may take (maxmemory).")
/* clang-format on */

static double known(uint64_t figure)
{
	return figure ? (double)figure : NAN;
}

#define READ(object, function, name, metric, kind, expression, help) \
	static double read_##function(const void *item)              \
	{                                                            \
		const struct service_moment *m = item;               \
		const struct service *s = m->service;                \
		const struct broker *b = s->broker;                  \
                                                                     \
		(void)b;                                             \
		return (double)(expression);                         \
	}
#define READ_PART(object, function, name, metric, label, expression, help) \
	READ(object, function, name, metric, COUNTER, expression, help)
ROWS(READ, READ_PART)

#define ROW(object, function, name, metric, kind, expression, help)                 \
	{ object,                                                                   \
	  NULL,                                                                     \
	  { name, FIGURE_STATS, NULL, NULL, metric, FIGURE_##kind, read_##function, \
	    help } },
#define PART(object, function, name, metric, label, expression, help)                \
	{ object,                                                                    \
	  label,                                                                     \
	  { name, FIGURE_STATS, NULL, NULL, metric, FIGURE_COUNTER, read_##function, \
	    help } },
static const struct {
	const char *object;
	const char *label; /* NULL: the metric has one series */
	struct figure figure;
} rows[] = { ROWS(ROW, PART) };
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

#define READ_MASTER(function, name, metric, kind, expression, help) \
	static double read_##function(const void *item)             \
	{                                                           \
		const struct store_master *m = item;                \
                                                                    \
		return (double)(expression);                        \
	}
MASTER_ROWS(READ_MASTER)

#define MASTER_ROW(function, name, metric, kind, expression, help) \
	{ name, FIGURE_STATS, NULL, NULL, metric, FIGURE_##kind, read_##function, help },
static const struct figure master_rows[] = { MASTER_ROWS(MASTER_ROW) };
#define MASTER_ROW_COUNT (sizeof(master_rows) / sizeof(master_rows[0]))

void service_figures_take(struct service_moment *m, const struct service *s)
{
	const struct broker *b = s->broker;
	const struct session *one;

	*m = (struct service_moment){ .service = s,
				      .journal = journal_stats(b->journal) };
	store_memory_ask(b->store);
	store_stats(b->store, &m->store);
	usage_read(&m->usage);
	for (const struct vhost *v = b->vhosts; v; v = v->hh.next) {
		m->queues += HASH_COUNT(v->queues) - v->topic_count;
		m->topics += v->topic_count;
		m->exchanges += HASH_COUNT(v->exchanges);
	}
	TAILQ_FOREACH (one, &s->sessions, link)
		m->connections++;
}

void service_figures_write(const struct service_moment *m, const char *object,
			   struct json *j)
{
	for (size_t i = 0; i < ROW_COUNT; i++)
		if (rows[i].figure.name && strcmp(rows[i].object, object) == 0)
			figure_write(&(struct figure_table){ &rows[i].figure, 1 },
				     FIGURE_STATS, m, m->service->broker->now_ms, j);
}

void service_figures_write_masters(const struct service_moment *m, struct json *j)
{
	const struct figure_table table = { master_rows, MASTER_ROW_COUNT };
	const struct broker *b = m->service->broker;
	struct store_master one;
	unsigned place = 0;

	json_member_array(j, "masters");
	while (store_master_next(b->store, &place, &one)) {
		json_object_begin(j);
		json_member_text(j, "address", one.address);
		json_member_text(j, "state", one.state);
		figure_write(&table, FIGURE_STATS, &one, b->now_ms, j);
		json_object_end(j);
	}
	json_array_end(j);
}

static void expose_family(const struct figure *f, struct exposition *e)
{
	exposition_family(
		e, &(struct exposition_family){ f->metric, figure_type(f), f->help });
}

static void expose_master(const struct service_moment *m, const struct figure *f,
			  struct exposition *e)
{
	struct store_master one;
	unsigned place = 0;

	if (!f->metric)
		return;
	expose_family(f, e);
	while (store_master_next(m->service->broker->store, &place, &one)) {
		const struct exposition_label label =
			exposition_text("master", one.address);
		double value = f->read(&one);

		if (!isnan(value))
			exposition_sample(e, &label, 1, value);
	}
}

void service_figures_expose(const struct service_moment *m, struct exposition *e)
{
	for (size_t i = 0; i < ROW_COUNT; i++) {
		const struct figure *f = &rows[i].figure;
		const struct exposition_label label = {
			rows[i].label, slice_from(f->name ? f->name : "")
		};
		double value = f->read(m);

		if (f->metric && f->help)
			expose_family(f, e);
		if (f->metric && !isnan(value))
			exposition_sample(e, &label, label.name ? 1 : 0, value);
	}
	for (size_t i = 0; i < MASTER_ROW_COUNT; i++)
		expose_master(m, &master_rows[i], e);
}
