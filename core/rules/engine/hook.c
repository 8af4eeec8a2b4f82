/* hook.c: the scripts with a match: which of them fit an address, and the two chains of
 * calls: that of the filters, and that of the other kinds. */

#include "hook.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/mem.h"
#include "base/table.h"
#include "engine_private.h"
#include "filter.h"
#include "rule.h"

#define PLANS_MAX 8192 /* addresses that are remembered */
#define ID_MAX (4 * (NAME_LEN_MAX + 1))

/* The scripts whose match fits an address, as places in the set. */
struct hook_plan {
	const uint16_t *places;
	unsigned count;
};

struct kept_plan {
	UT_hash_handle hh;
	struct hook_plan plan;
	size_t id_len;
	char *id; /* behind the places */
};

/* The active scripts of a kind, in the order of their file names, and which of them match
 * an address: the answers are remembered for the generation, which outlives the set. */
struct hook_set {
	struct rule **rules; /* the generation's */
	unsigned count;
	struct kept_plan *plans;
	unsigned plan_count;
	struct kept_plan *spare; /* of a dry run, which leaves nothing behind */
};

static struct hook_set *create_set(const struct generation *g, enum script_kind kind)
{
	struct hook_set *set = mem_zalloc(sizeof(*set));

	set->rules = mem_alloc((g->rule_count + 1) * sizeof(struct rule *));
	for (size_t i = 0; i < g->rule_count; i++) {
		if (g->rules[i]->kind == kind && g->rules[i]->match)
			set->rules[set->count++] = g->rules[i];
	}
	return set;
}

static void forget_plans(struct hook_set *set)
{
	struct kept_plan *plan, *next;

	HASH_ITER (hh, set->plans, plan, next) {
		HASH_DEL(set->plans, plan);
		mem_free(plan);
	}
	set->plan_count = 0;
}

static void destroy_set(struct hook_set *set)
{
	if (!set)
		return;
	forget_plans(set);
	mem_free(set->spare);
	mem_free(set->rules);
	mem_free(set);
}

static struct kept_plan *make_plan(struct hook_set *set, const struct hook_subject *s,
				   const char *id, size_t id_len)
{
	size_t room = set->count * sizeof(uint16_t);
	struct kept_plan *kept = mem_zalloc(sizeof(*kept) + room + id_len);
	uint16_t *places = (uint16_t *)(kept + 1);

	kept->id = (char *)(kept + 1) + room;
	kept->id_len = id_len;
	memcpy(kept->id, id, id_len);
	kept->plan.places = places;
	for (unsigned i = 0; i < set->count; i++) {
		if (rule_match_fits_address(set->rules[i]->match, s))
			places[kept->plan.count++] = (uint16_t)i;
	}
	return kept;
}

static void keep_plan(struct hook_set *set, struct kept_plan *kept)
{
	if (set->plan_count >= PLANS_MAX)
		forget_plans(set);
	HASH_ADD_KEYPTR(hh, set->plans, kept->id, kept->id_len, kept);
	set->plan_count++;
}

/* A longer text is no name, and only specs have it. */
static size_t add_name(char *id, size_t len, struct slice name)
{
	if (name.len > NAME_LEN_MAX)
		name.len = NAME_LEN_MAX;
	if (name.len)
		memcpy(id + len, name.data, name.len);
	id[len + name.len] = '\0';
	return len + name.len + 1;
}

/* The scripts whose match fits the address; good until the next plan is asked for. Fields
 * that differ from message to message are not looked at: rule_match_fits.
 *
 * @param is_dry  nothing is remembered */
static const struct hook_plan *plan_of(struct hook_set *set, const struct hook_subject *s,
				       bool is_dry)
{
	char id[ID_MAX];
	struct kept_plan *kept;
	size_t len = add_name(id, 0, s->vhost);

	len = add_name(id, len, s->exchange);
	len = add_name(id, len, s->key);
	len = add_name(id, len, s->queue);
	HASH_FIND(hh, set->plans, id, len, kept);
	if (kept)
		return &kept->plan;
	kept = make_plan(set, s, id, len);
	if (is_dry) {
		mem_free(set->spare);
		set->spare = kept;
	} else {
		keep_plan(set, kept);
	}
	return &kept->plan;
}

void hook_renew(struct engine *e, const struct generation *g)
{
	for (unsigned kind = 0; kind < script_kind_count; kind++) {
		struct hook_set *set = NULL;

		if (g && script_kind_has_match((enum script_kind)kind))
			set = create_set(g, (enum script_kind)kind);
		destroy_set(e->hook_sets[kind]);
		e->hook_sets[kind] = set;
		e->hook_counts[kind] = set ? set->count : 0;
	}
}

bool hook_is_used(const struct engine *e, enum script_kind kind)
{
	return e->hook_counts[kind] > 0;
}

bool hook_is_for(struct engine *e, enum script_kind kind, const struct hook_subject *s)
{
	return hook_is_used(e, kind) && plan_of(e->hook_sets[kind], s, false)->count > 0;
}

/* The caller learns what has failed. */
static void tell_asked(struct hook_call *c, int rc, const struct error *err)
{
	static const struct error none = { .code = TIDE_OK };

	c->on_asked(c, rc < 0 ? err : &none);
}

static int ask_rule(struct engine *e, struct hook_call *c, struct rule *rule,
		    struct error *err)
{
	struct use_call call = { .use = &rule->own,
				 .vhost = c->subject.vhost,
				 .context = c->context,
				 .take = c->take,
				 .ctx = c,
				 .refusal = c->refusal };

	memcpy(call.given, c->given, sizeof(call.given));
	if (e->former)
		carry_own(e, rule);
	c->rule = rule;
	c->file = rule->file;
	c->line = rule->line;
	int rc = use_decide(e, &call, err);
	c->is_decided |= c->refusal && c->refusal->is_refused;
	return rc;
}

int hook_run(struct engine *e, struct hook_call *c, struct error *err)
{
	struct hook_set *set = e->hook_sets[c->kind];
	const struct hook_plan *plan;
	int rc = TIDE_OK;

	c->rule = NULL;
	c->is_decided = false;
	if (!hook_is_used(e, c->kind))
		return TIDE_OK;
	plan = plan_of(set, &c->subject, c->context && c->context->is_dry);
	for (unsigned i = 0; rc == TIDE_OK && !c->is_decided && i < plan->count; i++) {
		struct rule *rule = set->rules[plan->places[i]];

		if (!rule_match_fits(rule->match, &c->subject))
			continue;
		rc = ask_rule(e, c, rule, err);
		if (!c->on_asked)
			continue;
		tell_asked(c, rc, err);
		rc = TIDE_OK;
	}
	return rc;
}

static bool is_for_all(const struct rule *r)
{
	return r->match->exchange.count == 0;
}

static bool is_dry(const struct filter_pass *p)
{
	return p->context && p->context->is_dry;
}

static int run_filter(struct engine *e, struct rule *rule, struct draft *d,
		      struct filter_pass *p, struct error *err)
{
	struct script_refusal refusal;
	unsigned copies = p->copies.count;
	/* EXPLAIN compares with the message as it stands before the filter. */
	struct msg *before = p->on_step ? draft_build(d) : NULL;
	uint64_t started_ns = before ? uv_hrtime() : 0;
	const struct use_call asked = { .use = &rule->own,
					.vhost = p->vhost,
					.context = p->context,
					.is_next = d->has_view && !before,
					.given = { d },
					.refusal = &refusal };

	if (e->former)
		carry_own(e, rule);
	int rc = use_decide(e, &asked, err);
	if (before) {
		const struct filter_step step = {
			.file = rule->file,
			.model = rule->model,
			.match = rule->match,
			.before = before,
			.after = &d->now,
			.copies = p->copies.count - copies,
			.rejected = refusal.is_refused ? refusal.reason : NULL,
			.time_ns = uv_hrtime() - started_ns,
		};
		p->on_step(p->ctx, &step);
		msg_unref(before);
	}
	for (unsigned i = copies; i < p->copies.count; i++) {
		p->copy_senders[i] = rule->file;
		p->copy_lines[i] = rule->line;
	}
	if (rc == TIDE_OK && refusal.is_refused)
		return error_set(err, TIDE_EREJECTED, "%s (%s)", refusal.reason,
				 rule->file);
	return rc;
}

static int hop(struct filter_pass *p, const struct rule *rule, struct error *err)
{
	if (++p->hops <= FILTER_HOPS_MAX)
		return TIDE_OK;
	return error_set(err, TIDE_ERULE,
			 "%s:%d: the message has been rerouted or copied more than %d "
			 "times; filters may send it in a circle",
			 rule->file, rule->line, FILTER_HOPS_MAX);
}

/* The place in the plan of the first filter behind `index`. */
static unsigned place_behind(const struct hook_plan *plan, unsigned index)
{
	unsigned i = 0;

	while (i < plan->count && plan->places[i] <= index)
		i++;
	return i;
}

static struct hook_subject subject_of(const struct filter_pass *p, const struct msg *m)
{
	return (struct hook_subject){ .vhost = p->vhost,
				      .exchange = m->exchange,
				      .key = m->key,
				      .user = msg_user(m),
				      .msg = m };
}

static int run_chain(struct engine *e, const struct hook_plan *plan, struct draft *d,
		     struct filter_pass *p, struct error *err)
{
	struct hook_set *set = e->hook_sets[SCRIPT_FILTER];
	/* The filters for all exchanges that have seen the message, a bit for each. */
	uint64_t seen[GENERATION_RULES_MAX / 64];
	struct hook_subject subject = subject_of(p, &d->now);
	int rc = TIDE_OK;

	memset(seen, 0, (set->count + 63) / 64 * sizeof(*seen));
	for (unsigned i = 0; rc == TIDE_OK && i < plan->count; i++) {
		unsigned index = plan->places[i];
		uint64_t bit = UINT64_C(1) << index % 64;
		uint32_t exchanges = d->exchange_changes, keys = d->key_changes;
		struct rule *rule = set->rules[index];
		if (seen[index / 64] & bit || !rule_match_fits(rule->match, &subject))
			continue;
		rc = run_filter(e, rule, d, p, err);
		if (is_for_all(rule))
			seen[index / 64] |= bit;
		if (rc != TIDE_OK)
			break;
		bool is_moved = d->exchange_changes != exchanges;
		if (!is_moved && d->key_changes == keys)
			continue;
		/* Of the default exchange the key is the address. */
		if (is_moved || d->now.exchange.len == 0) {
			p->sender = rule->file;
			p->sender_line = rule->line;
		}
		subject = subject_of(p, &d->now);
		plan = plan_of(set, &subject, is_dry(p));
		i = is_moved ? 0 : place_behind(plan, index);
		if (is_moved)
			rc = hop(p, rule, err);
		i--; /* the loop adds it again */
	}
	return rc;
}

/* Does one of them match the message as it comes? */
static bool needs_draft(const struct hook_set *set, const struct hook_plan *plan,
			const struct hook_subject *s)
{
	for (unsigned i = 0; i < plan->count; i++) {
		if (rule_match_fits(set->rules[plan->places[i]]->match, s))
			return true;
	}
	return false;
}

unsigned filter_count(const struct engine *e)
{
	return e->hook_counts[SCRIPT_FILTER];
}

int filter_run(struct engine *e, struct filter_pass *p, struct error *err)
{
	struct hook_set *set = e->hook_sets[SCRIPT_FILTER];
	const struct hook_subject subject = subject_of(p, p->msg);
	const struct hook_plan *plan = plan_of(set, &subject, is_dry(p));
	struct draft d;

	p->copies.count = 0;
	if (!needs_draft(set, plan, &subject))
		return TIDE_OK;
	draft_init(&d, p->msg, p->now_unix_ms, &p->copies);
	d.vhost = p->vhost;
	int rc = run_chain(e, plan, &d, p, err);
	if (rc == TIDE_OK && d.is_changed) {
		struct msg *changed = draft_build(&d);
		if (changed) {
			msg_unref(p->msg);
			p->msg = changed;
		} else {
			rc = error_set(err, TIDE_EBUSY,
				       "out of memory for the changed message");
		}
	}
	draft_deinit(&d);
	return rc;
}
