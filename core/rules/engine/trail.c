#include "trail.h"

#include <string.h>

#include "base/mem.h"
#include "engine_private.h"

#define CIRCLE_MAX (FILTER_HOPS_MAX + 4)

/* The message itself, or a copy. */
struct walker {
	struct msg *msg;
	unsigned hops;
	int at;
};

void trail_deinit(struct trail *t)
{
	words_deinit(&t->words);
	mem_free(t->hops);
	mem_free(t->called);
}

bool trail_has_called(const struct trail *t, const char *file)
{
	for (size_t i = 0; i < t->called_count; i++)
		if (strcmp(t->called[i], file) == 0)
			return true;
	return false;
}

static void note_called(struct trail *t, const char *file)
{
	t->last_file = file;
	if (trail_has_called(t, file))
		return;
	if (t->called_count == t->called_cap) {
		t->called_cap = t->called_cap * 2 + 16;
		t->called = mem_realloc(t->called, t->called_cap * sizeof(*t->called));
	}
	t->called[t->called_count++] = file;
}

static int line_of(const struct trail *t, const char *file)
{
	const struct generation *g = t->engine->current;
	for (size_t i = 0; i < g->rule_count; i++)
		if (g->rules[i]->file == file)
			return g->rules[i]->decide_line;
	return 1;
}

static int add_hop(struct trail *t, const struct filter_step *step, const struct msg *m,
		   int parent)
{
	if (t->count == t->cap) {
		t->cap = t->cap * 2 + 16;
		t->hops = mem_realloc(t->hops, t->cap * sizeof(*t->hops));
	}
	t->hops[t->count] =
		(struct hop){ .file = step->file,
			      .line = line_of(t, step->file),
			      .exchange = words_add(&t->words, m->exchange, NULL),
			      .key = words_add(&t->words, m->key, NULL),
			      .has_new_key = !slice_is_equal(step->before->key, m->key),
			      .parent = parent };
	return (int)t->count++;
}

static void on_step(void *ctx, const struct filter_step *step)
{
	struct trail *t = ctx;
	bool is_moved = !slice_is_equal(step->before->exchange, step->after->exchange);
	bool is_other = is_moved || !slice_is_equal(step->before->key, step->after->key);
	int parent = t->at;
	note_called(t, step->file);
	if (t->is_first && !t->first_end && (is_other || step->rejected))
		t->first_end = step->file;
	for (unsigned i = t->pass.copies.count - step->copies; i < t->pass.copies.count;
	     i++)
		t->copy_parents[i] = add_hop(t, step, t->pass.copies.items[i], parent);
	if (is_moved)
		t->at = add_hop(t, step, step->after, parent);
}

/* Copies that make copies come to the limit of copies before that of the hops: the
 * hop that shows their circle; -1 when there is none. */
static int find_crowd(const struct trail *t)
{
	struct trail_circle circle;
	int last =
		t->pass.copies.count ? t->copy_parents[t->pass.copies.count - 1] : t->at;
	return last >= 0 && trail_find_circle(t, last, &circle) ? last : -1;
}

/* One message; its copies are added to the walkers. */
static int walk(struct trail *t, struct walker *walkers, unsigned *count, unsigned at,
		struct error *err)
{
	struct filter_pass *p = &t->pass;
	struct walker *w = &walkers[at];
	t->at = w->at;
	t->is_first = at == 0;
	if (w->hops > FILTER_HOPS_MAX) {
		t->circle_at = w->at;
		return TIDE_ERULE;
	}
	p->msg = w->msg;
	p->hops = w->hops;
	p->sender = NULL;
	p->copies.max = DRAFT_COPIES_MAX + 1 - *count;
	p->copies.count = 0;
	int status = engine_filter(t->engine, p, err);
	w->msg = p->msg;
	w->hops = p->hops;
	if (p->hops > FILTER_HOPS_MAX)
		t->circle_at = t->at;
	else if (status == TIDE_ERULE && p->copies.count == p->copies.max)
		t->circle_at = find_crowd(t);
	else if (status == TIDE_ERULE && t->is_first && !t->first_end)
		t->first_end = t->last_file;
	for (unsigned i = 0; i < p->copies.count; i++) {
		struct msg *copy = p->copies.items[i];
		/* A copy has an id of its own, which a share of them may go by. */
		copy->id =
			source_hash((const char *)&copy->id, sizeof(copy->id)) + *count;
		walkers[(*count)++] =
			(struct walker){ copy, w->hops + 1, t->copy_parents[i] };
	}
	return status;
}

int trail_walk_take(struct trail *t, struct engine *e, struct msg *m, int64_t now_unix_ms,
		    struct error *err)
{
	struct walker walkers[DRAFT_COPIES_MAX + 1] = { { m, 0, -1 } };
	unsigned count = 1;
	int status = TIDE_OK;
	t->count = t->called_count = 0;
	t->last_file = t->first_end = NULL;
	t->circle_at = -1;
	t->engine = e;
	t->pass.now_unix_ms = now_unix_ms;
	t->pass.on_step = on_step;
	t->pass.ctx = t;
	for (unsigned i = 0; i < count && status == TIDE_OK; i++) {
		status = walk(t, walkers, &count, i, err);
		/* A copy that is refused is left out. */
		if (i > 0 && status == TIDE_EREJECTED)
			status = TIDE_OK;
	}
	for (unsigned i = 0; i < count; i++)
		msg_unref(walkers[i].msg);
	return status;
}

/* ---- circles -------------------------------------------------------------------------
 */

/* The number of hops back from `last` to an equal one; 0 when there is none. */
static unsigned distance(const struct trail *t, int last, bool with_key)
{
	const struct hop *end = &t->hops[last];
	unsigned n = 1;
	for (int i = end->parent; i >= 0; i = t->hops[i].parent, n++) {
		const struct hop *hop = &t->hops[i];
		if (hop->file == end->file && hop->exchange == end->exchange &&
		    (!with_key || hop->key == end->key))
			return n;
	}
	return 0;
}

/* The hop from which a description begins: one rule for all who go round it. */
static int first_of(const struct trail *t, int last, unsigned count)
{
	int first = last;
	for (unsigned i = 0; i < count; i++, last = t->hops[last].parent) {
		int order = strcmp(t->hops[last].file, t->hops[first].file);
		if (order == 0)
			order = strcmp(t->hops[last].exchange, t->hops[first].exchange);
		if (order < 0)
			first = last;
	}
	return first;
}

bool trail_find_circle(const struct trail *t, int last, struct trail_circle *out)
{
	unsigned count = distance(t, last, true);
	if (count == 0)
		count = distance(t, last, false);
	bool is_circle = count > 0;
	for (int i = last; !is_circle && i >= 0; i = t->hops[i].parent)
		count++;
	int first = is_circle ? first_of(t, last, count) : last;
	*out = (struct trail_circle){ .from = last,
				      .count = count,
				      .file = t->hops[first].file,
				      .line = t->hops[first].line };
	return is_circle;
}

void trail_describe(const struct trail *t, const struct trail_circle *c, struct buf *out,
		    struct buf *id)
{
	const struct hop *way[CIRCLE_MAX];
	unsigned count = c->count < CIRCLE_MAX ? c->count : CIRCLE_MAX, start = 0;
	int at = c->from;
	for (unsigned i = count; i > 0; i--, at = t->hops[at].parent)
		way[i - 1] = &t->hops[at];
	int first = first_of(t, c->from, count);
	for (unsigned i = 0; i < count; i++)
		if (way[i] == &t->hops[first])
			start = i;
	bool is_circle = distance(t, c->from, false) > 0;
	if (!is_circle)
		start = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct hop *hop = way[(start + i) % count];
		buf_printf(out, "%s -> exchange %s, key %s -> ", hop->file,
			   hop->exchange[0] ? hop->exchange : "-",
			   hop->key[0] ? hop->key : "-");
		if (!strstr(buf_cstr(id), hop->file))
			buf_printf(id, "%s;", hop->file);
	}
	if (is_circle)
		buf_append_text(out, way[start]->file);
	else
		buf_append_text(out, "...");
}
