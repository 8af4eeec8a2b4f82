#include "figures.h"

#include <string.h>

#include "base/mem.h"
#include "engine_private.h"

/* Scripts that are gone, whose figures wait for their return. */
#define PAST_MAX 1024

struct figures_past {
	enum script_kind kind;
	char *name;
	struct script_stats stats;
};

void figures_count_hits(const struct engine *e)
{
	const struct generation *g = e->current;
	const struct handle *h;

	for (size_t i = 0; i < g->rule_count; i++)
		g->rules[i]->live_hits = 0;
	TAILQ_FOREACH (h, &e->handles, link) {
		struct rule *rule = g->uses[h->number].rule;

		if (rule)
			rule->live_hits += h->cache_hits;
	}
}

static void add(struct script_stats *to, const struct script_stats *from)
{
	to->calls += from->calls;
	to->errors += from->errors;
	to->overruns += from->overruns;
	to->rejected += from->rejected;
	to->time_ns += from->time_ns;
	to->skipped += from->skipped;
	to->cache_hits += from->cache_hits;
	for (unsigned i = 0; i < COST_BUCKETS; i++)
		to->cost.buckets[i] += from->cost.buckets[i];
	if (from->cost.max_ns > to->cost.max_ns)
		to->cost.max_ns = from->cost.max_ns;
}

void figures_of_generation(const struct rule *rule, struct script_stats *out)
{
	*out = rule->stats;
	out->cache_hits += rule->live_hits - rule->hits_before;
}

void figures_since_start(const struct rule *rule, struct script_stats *out)
{
	*out = rule->stats;
	add(out, &rule->earlier);
	out->cache_hits += rule->live_hits;
}

static struct figures_past *find_past(const struct engine *e, const struct rule *rule)
{
	for (size_t i = 0; i < e->past_count; i++)
		if (e->past[i].kind == rule->kind &&
		    strcmp(e->past[i].name, rule->name) == 0)
			return &e->past[i];
	return NULL;
}

static void forget_past(struct engine *e, struct figures_past *p)
{
	mem_free(p->name);
	e->past_count--;
	memmove(p, p + 1, (size_t)(&e->past[e->past_count] - p) * sizeof(*p));
}

static void keep_past(struct engine *e, const struct rule *gone)
{
	struct figures_past *p;

	if (e->past_count == PAST_MAX)
		forget_past(e, e->past);
	e->past = mem_realloc(e->past, (e->past_count + 1) * sizeof(*e->past));
	p = &e->past[e->past_count++];
	p->kind = gone->kind;
	p->name = mem_strdup(gone->name);
	p->stats = gone->stats;
	add(&p->stats, &gone->earlier);
}

/* The last error stays while the script is the same. */
static void inherit(struct rule *rule, const struct rule *old)
{
	rule->earlier = old->stats;
	add(&rule->earlier, &old->earlier);
	rule->stats.minute = old->stats.minute;
	if (old->hash != rule->hash)
		return;
	memcpy(rule->stats.last_error, old->stats.last_error,
	       sizeof(rule->stats.last_error));
	memcpy(rule->stats.last_traceback, old->stats.last_traceback,
	       sizeof(rule->stats.last_traceback));
	rule->stats.last_error_unix_ms = old->stats.last_error_unix_ms;
}

void figures_begin(struct engine *e, const struct generation *former)
{
	struct generation *g = e->current;

	figures_count_hits(e);
	for (size_t i = 0; i < g->rule_count; i++) {
		struct rule *rule = g->rules[i];
		const struct rule *old = former ? generation_find(former, rule->kind,
								  slice_from(rule->name))
						: NULL;
		struct figures_past *p = old ? NULL : find_past(e, rule);

		if (old)
			inherit(rule, old);
		if (p) {
			rule->earlier = p->stats;
			rule->stats.minute = p->stats.minute;
			forget_past(e, p);
		}
		rule->hits_before = rule->live_hits;
	}
	for (size_t i = 0; former && i < former->rule_count; i++) {
		const struct rule *old = former->rules[i];

		if (!generation_find(g, old->kind, slice_from(old->name)))
			keep_past(e, old);
	}
}

void figures_free(struct engine *e)
{
	while (e->past_count > 0)
		forget_past(e, &e->past[e->past_count - 1]);
	mem_free(e->past);
	e->past = NULL;
}
