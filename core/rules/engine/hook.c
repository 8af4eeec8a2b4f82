#include "hook.h"

#include <string.h>

#include "engine_private.h"
#include "hook_set.h"

bool hook_is_used(const struct engine *e, enum script_kind kind)
{
	return e->hook_counts[kind] > 0;
}

bool hook_is_for(struct engine *e, enum script_kind kind, const struct hook_subject *s)
{
	return hook_is_used(e, kind) &&
	       hook_set_plan(e->hook_sets[kind], s, false)->count > 0;
}

/* The caller learns what has failed. */
static void tell(struct hook_call *c, int rc, const struct error *err)
{
	static const struct error none = { .code = TIDE_OK };

	c->on_asked(c, rc < 0 ? err : &none);
}

static int ask(struct engine *e, struct hook_call *c, struct rule *rule,
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
	plan = hook_set_plan(set, &c->subject, c->context && c->context->is_dry);
	for (unsigned i = 0; rc == TIDE_OK && !c->is_decided && i < plan->count; i++) {
		struct rule *rule = hook_set_rule(set, plan->places[i]);

		if (!rule_match_fits(rule->match, &c->subject))
			continue;
		rc = ask(e, c, rule, err);
		if (!c->on_asked)
			continue;
		tell(c, rc, err);
		rc = TIDE_OK;
	}
	return rc;
}
