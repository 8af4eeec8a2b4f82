#include "past.h"

#include <math.h>
#include <string.h>
#include <sys/queue.h>

#include "base/mem.h"
#include "base/table.h"
#include "broker/broker.h"
#include "broker/group.h"
#include "broker/queue.h"
#include "broker/queue_figures.h"

#define HOUR_MS 3600000
#define ROWS_MAX (HOUR_MS / PAST_EVERY_MS)
#define VALUES_MAX 5
/* Longer than a sample may be late: what was at work for a moment is not missed. */
#define WORK_SECONDS 20

/* The figures of a kind of things, by their names in documents. */
struct past_kind {
	const struct figure_table *figures;
	const char *columns[VALUES_MAX + 1];
};

static const struct past_kind of_queues = {
	&queue_figures_all, { "in_10s", "out_10s", "ready", "unacked", "oldest_ready_ms" }
};
static const struct past_kind of_topics = { &queue_figures_topic,
					    { "in_10s", "out_10s", "messages", "lag" } };
static const struct past_kind of_groups = { &queue_figures_group,
					    { "lag", "lag_ms", "members" } };

/* A float has seven digits, which a chart does not show. */
struct past_row {
	uint32_t second; /* wall clock */
	float values[VALUES_MAX];
};

struct past {
	UT_hash_handle hh;      /* by key */
	TAILQ_ENTRY(past) link; /* the one that has rested the longest is first */
	int64_t worked_ms;      /* by the clock that nobody sets */
	size_t count;           /* of rows that there were */
	struct past_row rows[ROWS_MAX];
	size_t key_len;
	char key[];
};

struct past_set {
	struct past *by_key; /* uthash */
	TAILQ_HEAD(, past) by_work;
	int64_t began_ms;
	struct buf key; /* of the one that is looked for */
};

struct past_set *past_create(void)
{
	struct past_set *set = mem_zalloc(sizeof(*set));

	TAILQ_INIT(&set->by_work);
	return set;
}

static void drop(struct past_set *set, struct past *s)
{
	HASH_DEL(set->by_key, s);
	TAILQ_REMOVE(&set->by_work, s, link);
	mem_free(s);
}

void past_destroy(struct past_set *set)
{
	struct past *s;

	while ((s = TAILQ_FIRST(&set->by_work)) != NULL)
		drop(set, s);
	buf_deinit(&set->key);
	mem_free(set);
}

/* Names have no space. */
static void write_key(struct buf *out, const struct queue *q, const struct topic_group *g)
{
	buf_clear(out);
	buf_printf(out, "%s %s %s", q->vhost->name, q->name, g ? g->name : "");
}

static struct past *find(const struct past_set *set, struct buf *key)
{
	struct past *s;

	HASH_FIND(hh, set->by_key, buf_cstr(key), buf_len(key), s);
	return s;
}

/* There is no room for another, since all are at work. */
static bool is_full(const struct past_set *set, int64_t mono_ms)
{
	return HASH_COUNT(set->by_key) >= PAST_MAX &&
	       mono_ms - TAILQ_FIRST(&set->by_work)->worked_ms < 2 * PAST_EVERY_MS;
}

static struct past *add(struct past_set *set)
{
	struct past *s = TAILQ_FIRST(&set->by_work);
	size_t len = buf_len(&set->key);

	if (HASH_COUNT(set->by_key) >= PAST_MAX)
		drop(set, s);
	s = mem_zalloc(sizeof(*s) + len);
	s->key_len = len;
	memcpy(s->key, buf_cstr(&set->key), len);
	HASH_ADD_KEYPTR(hh, set->by_key, s->key, s->key_len, s);
	TAILQ_INSERT_TAIL(&set->by_work, s, link);
	return s;
}

static double read_figure(const struct figure_table *t, const char *name,
			  const void *item, int64_t now_ms)
{
	for (unsigned i = 0; i < t->count; i++)
		if (t->rows[i].name && strcmp(t->rows[i].name, name) == 0)
			return figure_script(&t->rows[i], item, now_ms);
	return NAN;
}

static void add_row(struct past *s, const struct past_kind *kind, const void *item,
		    int64_t now_ms)
{
	struct past_row *row = &s->rows[s->count++ % ROWS_MAX];

	row->second = (uint32_t)(now_ms / 1000);
	for (unsigned i = 0; i < VALUES_MAX && kind->columns[i]; i++)
		row->values[i] =
			(float)read_figure(kind->figures, kind->columns[i], item, now_ms);
}

/* False: it has none. */
static bool note(struct past_set *set, const struct queue *q, const struct topic_group *g,
		 bool is_at_work)
{
	const struct broker *b = q->vhost->broker;
	struct past *s;

	write_key(&set->key, q, g);
	s = find(set, &set->key);
	if (!s && is_at_work && !is_full(set, b->mono_ms))
		s = add(set);
	if (!s)
		return false;
	if (is_at_work) {
		s->worked_ms = b->mono_ms;
		TAILQ_REMOVE(&set->by_work, s, link);
		TAILQ_INSERT_TAIL(&set->by_work, s, link);
	}
	if (g)
		add_row(s, &of_groups, g, b->now_ms);
	else
		add_row(s, q->topic ? &of_topics : &of_queues, q, b->now_ms);
	return true;
}

bool past_begin(struct past_set *set, const struct broker *b)
{
	struct past *s;

	/* It is asked each few seconds, and not to the millisecond. */
	if (set->began_ms && b->mono_ms - set->began_ms < PAST_EVERY_MS * 3 / 4)
		return false;
	set->began_ms = b->mono_ms;
	while ((s = TAILQ_FIRST(&set->by_work)) != NULL &&
	       b->mono_ms - s->worked_ms >= HOUR_MS)
		drop(set, s);
	return true;
}

static bool is_at_work(const struct queue *q)
{
	int64_t second = q->vhost->broker->second;

	return rate_peek(&q->rates->in, q->counters.published, second, WORK_SECONDS) >
		       0 ||
	       rate_peek(&q->rates->out, q->counters.delivered, second, WORK_SECONDS) > 0;
}

void past_note(struct past_set *set, const struct queue *q)
{
	const struct topic_group *g = NULL;
	bool is_busy;

	if (!q->rates)
		return;
	is_busy = is_at_work(q);
	/* Most queues of very many are at rest, or there is no room for them. */
	if (!q->rates->has_past && (!is_busy || is_full(set, q->vhost->broker->mono_ms)))
		return;
	q->rates->has_past = note(set, q, NULL, is_busy);
	if (q->topic && q->topic->groups)
		g = q->topic->groups->by_name;
	for (; g; g = g->hh.next)
		q->rates->has_past |= note(set, q, g, is_busy);
}

static void write_row(struct json *j, const struct past_kind *kind,
		      const struct past_row *row)
{
	json_array_begin(j);
	json_int(j, (int64_t)row->second * 1000);
	for (unsigned i = 0; i < VALUES_MAX && kind->columns[i]; i++) {
		double value = round((double)row->values[i] * 10) / 10;

		if (isnan(value))
			json_nil(j);
		else if (value == floor(value))
			json_int(j, (int64_t)value);
		else
			json_number(j, value);
	}
	json_array_end(j);
}

/* The index of the first row to show: `count` if there is none. */
static size_t first_shown(const struct past *s, uint64_t max, int64_t now_ms)
{
	size_t first = s->count > ROWS_MAX ? s->count - ROWS_MAX : 0;
	int64_t from = (now_ms - HOUR_MS) / 1000;

	if (max && s->count - first > max)
		first = s->count - (size_t)max;
	while (first < s->count && s->rows[first % ROWS_MAX].second < from)
		first++;
	return first;
}

void past_write(const struct past_set *set, const struct queue *q,
		const struct topic_group *g, uint64_t max, struct json *j)
{
	const struct past_kind *kind = g          ? &of_groups
				       : q->topic ? &of_topics
						  : &of_queues;
	struct buf key = { 0 };
	const struct past *s;

	write_key(&key, q, g);
	s = find(set, &key);
	buf_deinit(&key);
	json_object_begin(j);
	json_member_int(j, "every_ms", PAST_EVERY_MS);
	json_member_array(j, "columns");
	json_text(j, "t");
	for (unsigned i = 0; i < VALUES_MAX && kind->columns[i]; i++)
		json_text(j, kind->columns[i]);
	json_array_end(j);
	json_member_array(j, "rows");
	for (size_t i = s ? first_shown(s, max, q->vhost->broker->now_ms) : 0;
	     s && i < s->count; i++)
		write_row(j, kind, &s->rows[i % ROWS_MAX]);
	json_array_end(j);
	json_object_end(j);
}
