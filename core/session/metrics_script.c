#include "metrics_script.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "rules/api/series.h"
#include "rules/engine/engine_figures.h"
#include "session_private.h"

#define PREFIX "tidemq_custom_"
#define HELP_MAX 512

struct metric_list {
	struct engine_metric *items;
	size_t count, cap;
};

static void add(void *ctx, const struct engine_metric *m)
{
	struct metric_list *list = ctx;

	if (list->count == list->cap) {
		list->cap = list->cap * 2 + 16;
		list->items = mem_realloc(list->items, list->cap * sizeof(*list->items));
	}
	list->items[list->count++] = *m;
}

static struct slice name_of(const struct engine_metric *m)
{
	struct slice text = m->text;

	return m->is_plain ? text : slice_cut(&text, '{');
}

static int compare_slices(struct slice a, struct slice b)
{
	int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* The series of a family follow each other; plain ones come first. */
static int compare(const void *a, const void *b)
{
	const struct engine_metric *x = a, *y = b;
	int order = compare_slices(name_of(x), name_of(y));

	if (x->is_plain != y->is_plain)
		return x->is_plain ? -1 : 1;
	return order ? order : compare_slices(x->text, y->text);
}

static size_t write_plain(struct exposition *e, const struct metric_list *list)
{
	static const struct exposition_family family = {
		"tidemq_script_counter", EXPOSITION_GAUGE,
		"Counters of scripts whose name is none for Prometheus, by name."
	};
	size_t i;

	exposition_family(e, &family);
	for (i = 0; i < list->count && list->items[i].is_plain; i++) {
		const struct exposition_label one = { "name", list->items[i].text };

		exposition_sample(e, &one, 1, list->items[i].value);
	}
	return i;
}

static void write_sample(struct exposition *e, const struct engine_metric *m)
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

/* What the script says of itself, and its file, in one line. */
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
	const struct exposition_family family = { name, types[first->type], help };
	size_t n = 0;

	snprintf(name, sizeof(name), PREFIX "%" SLICE_FMT, SLICE_ARG(name_of(first)));
	make_help(engine, first, help);
	exposition_family(e, &family);
	for (; n < left && slice_is_equal(name_of(&first[n]), name_of(first)); n++)
		write_sample(e, &first[n]);
	return n;
}

void metrics_script_write(struct service *s, struct exposition *e)
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
