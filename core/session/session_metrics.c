#include "session_metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/tally.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "broker/exchange.h"
#include "broker/broker.h"
#include "broker/queue.h"
#include "broker/queue_figures.h"
#include "broker/topic.h"
#include "broker/walk.h"
#include "rules/api/meters.h"
#include "rules/engine/engine_status.h"
#include "service_figures.h"
#include "session_private.h"
#include "warnings.h"

/* The tables of figures, in the order in which they are told. */
enum metrics_of {
	METRICS_EXCHANGES,
	METRICS_TOPICS,
	METRICS_GROUPS,
	METRICS_QUEUES,
	METRICS_TABLES,
};

static const struct figure_table *const metrics_tables[] = {
	[METRICS_EXCHANGES] = &queue_figures_exchange,
	[METRICS_TOPICS] = &queue_figures_topic,
	[METRICS_GROUPS] = &queue_figures_group,
	[METRICS_QUEUES] = &queue_figures_all,
};

/* The next exchange, topic or queue; NULL behind the last. */
static const void *meet_next(enum metrics_of of, struct walk *w)
{
	return of == METRICS_EXCHANGES ? (const void *)walk_exchange(w)
	       : of == METRICS_QUEUES  ? walk_queue(w)
				       : walk_topic(w);
}

/* The next part that has the metrics: the thing itself, or each of its groups. NULL
 * behind the last. */
static const void *next_measured(enum metrics_of of, const void *met, const void *before)
{
	const struct topic_group *group = before;
	const struct queue *q = met;

	if (of != METRICS_GROUPS)
		return before ? NULL : met;
	if (group)
		return group->hh.next;
	return q->topic->groups ? q->topic->groups->by_name : NULL;
}

static struct vhost *vhost_of(enum metrics_of of, const void *met)
{
	return of == METRICS_EXCHANGES ? ((const struct exchange *)met)->vhost
				       : ((const struct queue *)met)->vhost;
}

#define LABELS_MAX 3

/* Returns how many. */
static unsigned write_labels(enum metrics_of of, const void *met, const void *item,
			     struct exposition_label out[LABELS_MAX])
{
	const struct topic_group *g = item;

	out[0] = (struct exposition_label){ "vhost", vhost_slice(vhost_of(of, met)) };
	if (of == METRICS_EXCHANGES)
		out[1] = (struct exposition_label){ "exchange", exchange_slice(met) };
	else
		out[1] = (struct exposition_label){ of == METRICS_QUEUES ? "queue"
									 : "topic",
						    queue_slice(met) };
	if (of != METRICS_GROUPS)
		return 2;
	out[2] = (struct exposition_label){ "group", { g->name, g->name_len } };
	return 3;
}

/* The metrics of the broker itself, and of its vhosts. */

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

static void write_brokers(struct exposition *e, const struct service *s)
{
	const struct net_member *m;
	unsigned fronts = 0, own = service_net_cell(s);

	TAILQ_FOREACH (m, &s->members, entry)
		fronts += m->is_front || (!m->is_vacant && m->cell != own);
	begin(e, EXPOSITION_GAUGE, "tidemq_fronts",
	      "Brokers that pass their clients through to this one.");
	exposition_sample(e, NULL, 0, fronts);
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
		exposition_text("confirm", store_confirm_level(b->store)),
	};

	begin(e, EXPOSITION_INFO, "tidemq_store", "Redis.");
	exposition_sample(e, labels, 4, 1);
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

/* The broker, its connections, Redis, the loop and the process. */
static void metrics_broker_write(struct service *s, struct exposition *e)
{
	struct service_moment m;

	service_figures_take(&m, s);
	write_build(e, s->broker);
	write_connections(e, s);
	write_brokers(e, s);
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

static void metrics_broker_write_vhosts(struct service *s, struct exposition *e)
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

/* The metrics of the rules, and of each script. */

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

static void write_generation(struct exposition *e, const struct engine_figures *f)
{
	exposition_gauge(e, "tidemq_rules_generation",
			 "The number of the active generation.", f->generation);
	exposition_gauge(e, "tidemq_rules_loaded_timestamp_seconds",
			 "When it was loaded, since 1970.",
			 (double)f->loaded_unix_ms / 1000);
	exposition_counter(e, "tidemq_rules_refusals", "Generations that were refused.",
			   f->refused);
	exposition_gauge(e, "tidemq_rules_refused",
			 "1: the last attempt to load rules was refused.", f->is_refused);
	exposition_gauge(e, "tidemq_rules_memory_bytes",
			 "Memory of the active generation.", f->memory_bytes);
	exposition_gauge(e, "tidemq_rules_memory_limit_bytes", "What it may take.",
			 f->memory_max_bytes);
	exposition_gauge(e, "tidemq_rules_shared_entries", "Entries of tide.shared.",
			 f->shared_entries);
	exposition_gauge(e, "tidemq_rules_shared_entries_limit", "How many it may have.",
			 f->shared_entries_max);
	exposition_gauge(e, "tidemq_rules_shared_bytes", "Their size.", f->shared_bytes);
	exposition_gauge(e, "tidemq_rules_shared_limit_bytes", "What they may take.",
			 f->shared_bytes_max);
}

/* clang-format off */
/* ROW(metric, type, expression, help) */
#define SCRIPT_FIGURES(ROW) \
ROW(calls,            COUNTER, s->calls,                     "Decisions asked of the script.") \
ROW(errors,           COUNTER, s->errors,                    "Of these, those that failed.") \
ROW(overruns,         COUNTER, s->overruns,                  "Of the errors, those of the time budget.") \
ROW(rejected,         COUNTER, s->rejected,                  "Messages that a filter refused, or logins that a script refused.") \
ROW(skipped,          COUNTER, s->skipped,                   "Decisions that an open circuit failed at once.") \
ROW(seconds,          COUNTER, (double)s->time_ns / 1e9,     "Time in the script.") \
ROW(call_max_seconds, GAUGE,   (double)s->longest_ns / 1e9,  "The longest call since the start.") \
ROW(memory_bytes,     GAUGE,   s->memory_bytes,              "What the script holds of the scripts' memory.") \
ROW(circuits_open,    GAUGE,   s->open_circuits,             "Uses of the script that are paused because it failed too often.")
/* clang-format on */

#define READ_SCRIPT(metric, type, expression, help)                  \
	static double script_##metric(const struct engine_script *s) \
	{                                                            \
		return (double)(expression);                         \
	}
SCRIPT_FIGURES(READ_SCRIPT)

#define SCRIPT_FIGURE(metric, type, expression, help) \
	{ { "tidemq_script_" #metric, EXPOSITION_##type, help }, script_##metric },
static const struct {
	struct exposition_family family;
	double (*value)(const struct engine_script *s);
} script_figures[] = { SCRIPT_FIGURES(SCRIPT_FIGURE) };

static void write_scripts(struct exposition *e, const struct engine *engine)
{
	size_t count = engine_figures_count_scripts(engine);
	struct engine_script *scripts = mem_alloc((count + 1) * sizeof(*scripts));

	for (size_t i = 0; i < count; i++)
		engine_figures_read_script(engine, i, &scripts[i]);
	for (size_t k = 0; k < COUNT_OF(script_figures); k++) {
		exposition_family(e, &script_figures[k].family);
		for (size_t i = 0; i < count; i++) {
			const struct exposition_label labels[] = {
				exposition_text("kind", scripts[i].kind),
				exposition_text("script", scripts[i].name)
			};

			exposition_sample(e, labels, 2,
					  script_figures[k].value(&scripts[i]));
		}
	}
	mem_free(scripts);
}

static void metrics_rules_write(struct service *s, struct exposition *e)
{
	struct engine_figures f;
	char hash[ID_HEX_LEN];

	engine_figures_read(s->broker->engine, &f);
	id_format(f.hash, hash);
	begin(e, EXPOSITION_INFO, "tidemq_rules", "The active generation.");
	exposition_sample(
		e,
		(const struct exposition_label[]){ { "hash", { hash, sizeof(hash) } },
						   exposition_text("origin", f.origin) },
		2, 1);
	write_generation(e, &f);
	write_scripts(e, s->broker->engine);
}

/* The metrics that scripts make: tide.counter, tide.gauge,
 * tide.histogram.
 *
 * Each is a family of its own, "tidemq_custom_" and its name. A counter whose name is
 * none for Prometheus is a sample of tidemq_script_counter. */

#define PREFIX "tidemq_custom_"
#define HELP_MAX 512

struct metric_list {
	struct engine_metric *items;
	size_t count, cap;
};

static void add(void *ctx, const struct engine_metric *m)
{
	struct metric_list *list = ctx;

	MEM_GROW(list->items, list->count, list->cap, 16);
	list->items[list->count++] = *m;
}

static struct slice name_of(const struct engine_metric *m)
{
	struct slice text = m->text;

	return m->is_plain ? text : slice_cut(&text, '{');
}

static int compare(const void *a, const void *b)
{
	const struct engine_metric *x = a, *y = b;
	int order = slice_compare(name_of(x), name_of(y));

	if (x->is_plain != y->is_plain)
		return x->is_plain ? -1 : 1;
	return order ? order : slice_compare(x->text, y->text);
}

static size_t write_plain(struct exposition *e, const struct metric_list *list)
{
	size_t i;

	begin(e, EXPOSITION_GAUGE, "tidemq_script_counter",
	      "Counters of scripts whose name is none for Prometheus, by name.");
	for (i = 0; i < list->count && list->items[i].is_plain; i++) {
		const struct exposition_label one = { "name", list->items[i].text };

		exposition_sample(e, &one, 1, list->items[i].value);
	}
	return i;
}

static void write_script_sample(struct exposition *e, const struct engine_metric *m)
{
	struct exposition_label labels[SERIES_LABELS_MAX];
	char names[SERIES_LABELS_MAX][SERIES_LABEL_MAX + 1];
	const struct exposition_buckets buckets = { m->bucket_count, m->buckets,
						    m->counts, m->value };
	struct series s;

	if (!series_read(m->text, &s))
		return;
	for (unsigned i = 0; i < s.count; i++) {
		snprintf(names[i], sizeof(names[i]), "%" SLICE_FMT,
			 SLICE_ARG(s.labels[i].name));
		labels[i] = (struct exposition_label){ names[i], s.labels[i].value };
	}
	if (m->type == ENGINE_HISTOGRAM)
		exposition_histogram(e, labels, s.count, &buckets);
	else
		exposition_sample(e, labels, s.count, m->value);
}

/* The doc of the script, and its file, in one line. */
static void make_help(const struct engine *engine, const struct engine_metric *m,
		      char out[HELP_MAX])
{
	const char *doc = engine_figures_doc(engine, m->file);

	size_t len = doc ? strlen(doc) : 0;

	if (len > HELP_MAX / 2)
		len = utf8_whole(doc, HELP_MAX / 2);
	if (doc && slice_is_utf8((struct slice){ doc, len }))
		snprintf(out, HELP_MAX, "%.*s (%s)", (int)len, doc, m->file);
	else
		snprintf(out, HELP_MAX, "Of %s.", m->file ? m->file : "a script");
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ' || *c == '\\')
			*c = ' ';
}

/* The family of the first item; returns how many it has. */
static size_t write_family(struct exposition *e, const struct engine *engine,
			   const struct engine_metric *first, size_t left)
{
	static const enum exposition_type types[] = {
		[ENGINE_COUNTER] = EXPOSITION_COUNTER,
		[ENGINE_GAUGE] = EXPOSITION_GAUGE,
		[ENGINE_HISTOGRAM] = EXPOSITION_HISTOGRAM,
	};
	char name[sizeof(PREFIX) + SERIES_NAME_MAX], help[HELP_MAX];
	size_t n = 0;

	snprintf(name, sizeof(name), PREFIX "%" SLICE_FMT, SLICE_ARG(name_of(first)));
	make_help(engine, first, help);
	begin(e, types[first->type], name, help);
	for (; n < left && slice_is_equal(name_of(&first[n]), name_of(first)); n++)
		write_script_sample(e, &first[n]);
	return n;
}

static void metrics_script_write(struct service *s, struct exposition *e)
{
	const struct engine *engine = s->broker->engine;
	struct metric_list list = { 0 };
	size_t at;

	engine_figures_each_metric(engine, add, &list);
	if (list.count > 1)
		qsort(list.items, list.count, sizeof(*list.items), compare);
	at = write_plain(e, &list);
	while (at < list.count)
		at += write_family(e, engine, &list.items[at], list.count - at);
	mem_free(list.items);
}

/* Of a turn, which may make two, and of memory. */
#define PIECE_NS UINT64_C(1000000)
#define PIECE_BYTES ((size_t)128 << 10)
#define STEPS 4 /* from one look at the clock to the next */

/* The writers before the tables. */
static void (*const heads[])(struct service *s, struct exposition *e) = {
	metrics_broker_write, metrics_rules_write, metrics_script_write,
	metrics_broker_write_vhosts
};
#define HEADS (sizeof(heads) / sizeof(heads[0]))

/* Of one vhost: the table's figures of all that it has. */
struct row {
	struct vhost *vhost; /* a reference */
	double sums[FIGURE_ROWS_MAX];
};

struct session_metrics {
	struct job job;
	struct service *service;
	struct metrics_spec spec;
	struct exposition exposition;
	struct buf piece;
	struct walk walk;
	unsigned section; /* the next head, or table behind the heads */
	unsigned metric;  /* of the table */
	bool has_begun;   /* the metric, or with is_per_vhost the sums of the table */
	bool has_sums;    /* all of the table, with is_per_vhost */
	struct row *rows; /* with is_per_vhost */
	unsigned row_count;
	bool is_done, is_ended;
};

static enum metrics_of of_section(const struct session_metrics *m)
{
	return (enum metrics_of)(m->section - HEADS);
}

static const struct figure_table *table_of(const struct session_metrics *m)
{
	return metrics_tables[of_section(m)];
}

static const struct figure *figure_of(const struct session_metrics *m)
{
	return &table_of(m)->rows[m->metric];
}

static int64_t now_ms(const struct session_metrics *m)
{
	return m->service->broker->now_ms;
}

static void begin_section(struct session_metrics *m)
{
	m->metric = 0;
	m->has_begun = m->has_sums = false;
	m->is_done = m->section == HEADS + METRICS_TABLES;
}

static void begin_metric(struct session_metrics *m)
{
	m->has_begun = false;
	if (++m->metric < table_of(m)->count)
		return;
	m->section++;
	begin_section(m);
}

static void begin_family(struct session_metrics *m)
{
	const struct figure *f = figure_of(m);

	begin(&m->exposition, figure_type(f), f->metric, f->help);
}

static void write_sample(struct session_metrics *m, const void *met, const void *item)
{
	struct exposition_label labels[LABELS_MAX];
	double value = figure_metric(figure_of(m), item, now_ms(m));

	if (!isnan(value))
		exposition_sample(&m->exposition, labels,
				  write_labels(of_section(m), met, item, labels), value);
}

/* One more thing, of one metric. */
static void step_each(struct session_metrics *m)
{
	const void *met, *item = NULL;

	if (!m->has_begun) {
		begin_family(m);
		walk_rewind(&m->walk);
		m->has_begun = true;
	}
	met = meet_next(of_section(m), &m->walk);
	if (!met)
		begin_metric(m);
	while (met && (item = next_measured(of_section(m), met, item)) != NULL)
		write_sample(m, met, item);
}

static struct row *row_of(struct session_metrics *m, const struct vhost *v)
{
	for (unsigned i = 0; i < m->row_count; i++)
		if (m->rows[i].vhost == v)
			return &m->rows[i];
	return NULL;
}

/* Of ages the largest is shown. */
static void add_to_row(struct row *row, const struct session_metrics *m, const void *item)
{
	const struct figure_table *t = table_of(m);

	for (unsigned i = 0; i < t->count; i++) {
		const struct figure *f = &t->rows[i];
		double value = f->metric ? figure_metric(f, item, now_ms(m)) : NAN;

		if (isnan(value))
			continue;
		if (f->kind != FIGURE_SINCE)
			row->sums[i] += value;
		else if (value > row->sums[i])
			row->sums[i] = value;
	}
}

/* All metrics of one more thing. */
static void step_sums(struct session_metrics *m)
{
	const void *met, *item = NULL;
	struct row *row;

	if (!m->has_begun) {
		walk_rewind(&m->walk);
		for (unsigned i = 0; i < m->row_count; i++)
			memset(m->rows[i].sums, 0, sizeof(m->rows[i].sums));
		m->has_begun = true;
	}
	met = meet_next(of_section(m), &m->walk);
	row = met ? row_of(m, vhost_of(of_section(m), met)) : NULL;
	if (!met)
		m->has_sums = true;
	while (row && (item = next_measured(of_section(m), met, item)) != NULL)
		add_to_row(row, m, item);
}

static void write_rows(struct session_metrics *m)
{
	begin_family(m);
	for (unsigned i = 0; i < m->row_count; i++) {
		struct exposition_label one = { "vhost", vhost_slice(m->rows[i].vhost) };

		exposition_sample(&m->exposition, &one, 1, m->rows[i].sums[m->metric]);
	}
	begin_metric(m);
}

static void step(struct session_metrics *m)
{
	if (m->section < HEADS) {
		heads[m->section++](m->service, &m->exposition);
		begin_section(m);
	} else if (!figure_of(m)->metric) {
		begin_metric(m);
	} else if (!m->spec.is_per_vhost) {
		step_each(m);
	} else if (!m->has_sums) {
		step_sums(m);
	} else {
		write_rows(m);
	}
	if (m->is_done)
		exposition_end(&m->exposition);
}

static void make_piece(struct session_metrics *m)
{
	uint64_t end_ns = uv_hrtime() + PIECE_NS;
	unsigned steps = 0;

	while (!m->is_done && buf_len(&m->piece) < PIECE_BYTES &&
	       (++steps % STEPS != 0 || uv_hrtime() < end_ns))
		step(m);
}

static void destroy(struct session_metrics *m)
{
	walk_end(&m->walk);
	for (unsigned i = 0; i < m->row_count; i++)
		vhost_unref(m->rows[i].vhost);
	mem_free(m->rows);
	buf_deinit(&m->piece);
	mem_free(m);
}

static void run(struct job *job)
{
	struct session_metrics *m = container_of(job, struct session_metrics, job);

	if (m->is_ended) {
		destroy(m);
		return;
	}
	if (m->service->broker->is_closing)
		return; /* nobody takes it */
	make_piece(m);
	if (buf_len(&m->piece) == 0 && !m->is_done)
		job_add(m->service->broker, job);
	else
		m->spec.on_piece(m->spec.ctx);
}

static void make_rows(struct session_metrics *m)
{
	const struct broker *b = m->service->broker;
	struct vhost *v;

	m->rows = mem_zalloc(HASH_COUNT(b->vhosts) * sizeof(*m->rows));
	for (v = b->vhosts; v; v = v->hh.next)
		m->rows[m->row_count++].vhost = vhost_ref(v);
}

int session_metrics_start(struct session_metrics **out, struct session *s,
			  const struct metrics_spec *spec, struct error *err)
{
	struct session_metrics *m;
	int rc = session_access_check_monitor(s, "/metrics", err);

	if (rc < 0)
		return rc;
	m = mem_zalloc(sizeof(*m));
	m->job.run = run;
	m->service = s->service;
	m->spec = *spec;
	m->exposition = (struct exposition){ .out = &m->piece,
					     .is_openmetrics = spec->is_openmetrics };
	walk_begin(&m->walk, s->broker);
	if (spec->is_per_vhost)
		make_rows(m);
	job_add(s->broker, &m->job);
	*out = m;
	return TIDE_OK;
}

int session_metrics_take(struct session_metrics *m, struct buf *out)
{
	if (buf_len(&m->piece) == 0)
		return m->is_done ? TIDE_EMPTY : TIDE_AGAIN;
	buf_append_slice(out, buf_slice(&m->piece));
	buf_clear(&m->piece);
	if (!m->is_done)
		job_add(m->service->broker, &m->job);
	return TIDE_OK;
}

void session_metrics_end(struct session_metrics *m)
{
	if (!m)
		return;
	m->is_ended = true;
	if (!m->job.is_waiting)
		destroy(m);
}
