#include "filter.h"

#include <lauxlib.h>
#include <stdio.h>
#include <uv.h>

#include "engine_private.h"
#include "hook_set.h"
#include "rule.h"

#define REASON_MAX 300

static bool is_for_all(const struct rule *r)
{
	return r->match->exchange.count == 0;
}

struct filter_call {
	const struct rule *rule;
	struct draft *draft;
	bool is_rejected;
	char reason[REASON_MAX];
};

/* publish (msg, opts, state) -> nothing, or false and a reason. A reason without `false`
 * is a slip that would let the message in. */
static int l_publish(lua_State *L)
{
	struct filter_call *c = lua_touserdata(L, 1);

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->rule->functions[RULE_DECIDE]);
	draft_push(L, c->draft);
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->rule->own.options);
	dry_run_push_state(L, c->rule->own.state);
	lua_call(L, 3, 2);
	bool is_let_in = lua_isnil(L, -2) || lua_toboolean(L, -2);
	if (is_let_in && lua_isnil(L, -1) && (lua_isnil(L, -2) || lua_isboolean(L, -2)))
		return 0;
	script_set_place(script_state_of(L), rule_code_file(c->rule),
			 c->rule->decide_line);
	if (is_let_in && (lua_isnil(L, -2) || lua_isboolean(L, -2)))
		return luaL_error(
			L,
			"publish returned %s and a %s: to refuse the message it "
			"must return false and a reason, to let it in nothing",
			lua_isnil(L, -2) ? "nil" : "true", luaL_typename(L, -1));
	if (!lua_isboolean(L, -2))
		return luaL_error(
			L, "publish must return nothing, or false and a reason, not %s",
			luaL_typename(L, -2));
	if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING)
		return luaL_error(L, "the reason of a refusal must be a text, not a %s",
				  luaL_typename(L, -1));
	c->is_rejected = true;
	const char *reason = luaL_optstring(L, -1, "");
	bool is_blank = reason[strspn(reason, " \t\r\n")] == '\0';
	snprintf(c->reason, sizeof(c->reason), "%s",
		 is_blank ? "a filter refused the message" : reason);
	return 0;
}

static void tell(const struct filter_pass *p, const struct filter_call *c,
		 struct msg *before, unsigned copies, uint64_t time_ns)
{
	if (before) {
		const struct filter_step step = {
			.file = c->rule->file,
			.model = c->rule->model,
			.match = c->rule->match,
			.before = before,
			.after = &c->draft->now,
			.copies = p->copies.count - copies,
			.rejected = c->is_rejected ? c->reason : NULL,
			.time_ns = time_ns,
		};
		p->on_step(p->ctx, &step);
	}
	msg_unref(before);
}

static bool is_dry(const struct filter_pass *p)
{
	return p->context && p->context->is_dry;
}

static int run_filter(struct engine *e, struct rule *rule, struct draft *d,
		      struct filter_pass *p, struct error *err)
{
	struct filter_call call;
	unsigned copies = p->copies.count;
	/* EXPLAIN compares with the message as it stands before the filter. */
	struct msg *before = p->on_step ? draft_build(d) : NULL;
	uint64_t started_ns = before ? uv_hrtime() : 0;

	if (e->former)
		carry_own(e, rule);
	call.rule = rule;
	call.draft = d;
	call.is_rejected = false;
	const struct use_call asked = { .use = &rule->own,
					.vhost = p->vhost,
					.context = p->context,
					.is_next = d->has_view && !before,
					.body = l_publish,
					.ctx = &call };
	int rc = use_decide(e, &asked, err);
	tell(p, &call, before, copies, before ? uv_hrtime() - started_ns : 0);
	for (unsigned i = copies; i < p->copies.count; i++) {
		p->copy_senders[i] = rule->file;
		p->copy_lines[i] = rule->line;
	}
	if (rc == TIDE_OK && call.is_rejected) {
		if (!is_dry(p))
			rule->stats.rejected++;
		return error_set(err, TIDE_EREJECTED, "%s (%s)", call.reason, rule->file);
	}
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
