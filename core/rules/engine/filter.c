#include "filter.h"

#include <stdio.h>
#include <uv.h>

#include "engine_private.h"
#include "hook_set.h"
#include "rule.h"

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

	memset(seen, 0, (hook_set_count(set) + 63) / 64 * sizeof(*seen));
	for (unsigned i = 0; rc == TIDE_OK && i < plan->count; i++) {
		unsigned index = plan->places[i];
		uint64_t bit = UINT64_C(1) << index % 64;
		uint32_t exchanges = d->exchange_changes, keys = d->key_changes;
		struct rule *rule = hook_set_rule(set, index);
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
		plan = hook_set_plan(set, &subject, is_dry(p));
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
		if (rule_match_fits(hook_set_rule(set, plan->places[i])->match, s))
			return true;
	}
	return false;
}

unsigned filter_count(const struct engine *e)
{
	return hook_set_count(e->hook_sets[SCRIPT_FILTER]);
}

int filter_run(struct engine *e, struct filter_pass *p, struct error *err)
{
	struct hook_set *set = e->hook_sets[SCRIPT_FILTER];
	const struct hook_subject subject = subject_of(p, p->msg);
	const struct hook_plan *plan = hook_set_plan(set, &subject, is_dry(p));
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
