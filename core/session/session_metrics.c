#include "session_metrics.h"

#include <math.h>

#include "base/container.h"
#include "base/mem.h"
#include "broker/job.h"
#include "metrics_broker.h"
#include "metrics_rules.h"
#include "metrics_script.h"
#include "metrics_table.h"
#include "session_private.h"

/* Of a turn, which may make two, and of memory. */
#define PIECE_NS UINT64_C(1000000)
#define PIECE_BYTES ((size_t)128 << 10)
#define STEPS 4 /* from one look at the clock to the next */

/* What comes before the tables. */
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

static const struct metrics_table *table_of(const struct session_metrics *m)
{
	return &metrics_table_all[m->section - HEADS];
}

static const struct figure *figure_of(const struct session_metrics *m)
{
	return &table_of(m)->figures->rows[m->metric];
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
	if (++m->metric < table_of(m)->figures->count)
		return;
	m->section++;
	begin_section(m);
}

static void begin_family(struct session_metrics *m)
{
	const struct figure *f = figure_of(m);

	exposition_family(&m->exposition,
			  &(struct exposition_family){ f->metric,
						       f->kind == FIGURE_COUNTER
							       ? EXPOSITION_COUNTER
							       : EXPOSITION_GAUGE,
						       f->help });
}

static void write_sample(struct session_metrics *m, const void *met, const void *item)
{
	const struct metrics_table *t = table_of(m);
	double value = figure_metric(figure_of(m), item, now_ms(m));
	struct exposition_label labels[METRICS_LABELS_MAX] = {
		{ "vhost", vhost_slice(t->vhost(met)) }
	};

	if (!isnan(value))
		exposition_sample(&m->exposition, labels, 1 + t->label(item, labels + 1),
				  value);
}

/* One more thing, of one metric. */
static void step_each(struct session_metrics *m)
{
	const struct metrics_table *t = table_of(m);
	const void *met, *part = NULL;

	if (!m->has_begun) {
		begin_family(m);
		walk_rewind(&m->walk);
		m->has_begun = true;
	}
	met = t->next(&m->walk);
	if (!met)
		begin_metric(m);
	else if (!t->next_part)
		write_sample(m, met, met);
	else
		while ((part = t->next_part(met, part)) != NULL)
			write_sample(m, met, part);
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
	const struct figure_table *t = table_of(m)->figures;

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
	const struct metrics_table *t = table_of(m);
	const void *met, *part = NULL;
	struct row *row;

	if (!m->has_begun) {
		walk_rewind(&m->walk);
		for (unsigned i = 0; i < m->row_count; i++)
			memset(m->rows[i].sums, 0, sizeof(m->rows[i].sums));
		m->has_begun = true;
	}
	met = t->next(&m->walk);
	row = met ? row_of(m, t->vhost(met)) : NULL;
	if (!met)
		m->has_sums = true;
	else if (row && !t->next_part)
		add_to_row(row, m, met);
	else if (row)
		while ((part = t->next_part(met, part)) != NULL)
			add_to_row(row, m, part);
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
