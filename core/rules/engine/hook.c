#include "hook.h"

#include <lauxlib.h>

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

void hook_push(lua_State *L, const struct hook_call *c)
{
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->rule->functions[RULE_DECIDE]);
}

void hook_call_script(lua_State *L, const struct hook_call *c, int args, int results)
{
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->rule->own.options);
	dry_run_push_state(L, c->rule->own.state);
	lua_call(L, args + 2, results);
}

int hook_refuse(lua_State *L, const struct hook_call *c, const char *text)
{
	script_set_place(script_state_of(L), rule_code_file(c->rule),
			 c->rule->decide_line);
	return luaL_error(L, "%s", text);
}

/* What has failed is the business of who is told. */
static void tell(struct hook_call *c, int rc, const struct error *err)
{
	static const struct error none = { .code = TIDE_OK };

	c->on_asked(c, rc < 0 ? err : &none);
}

static int ask(struct engine *e, struct hook_call *c, struct rule *rule,
	       struct error *err)
{
	const struct use_call call = { .use = &rule->own,
				       .vhost = c->subject.vhost,
				       .context = c->context,
				       .body = c->body,
				       .ctx = c };

	if (e->former)
		carry_own(e, rule);
	c->rule = rule;
	c->file = rule->file;
	c->line = rule->line;
	return use_decide(e, &call, err);
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
