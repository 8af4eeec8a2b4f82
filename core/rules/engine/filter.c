#include "filter.h"

#include <lauxlib.h>
#include <stdio.h>
#include <uv.h>

#include "base/topic_pattern.h"
#include "base/mem.h"
#include "base/table.h"
#include "engine_private.h"

#define PLANS_MAX 8192 /* addresses that are remembered */
#define REASON_MAX 300

/* The filters that match an address, in their order. */
struct plan {
	UT_hash_handle hh;
	unsigned count;
	uint16_t *indexes; /* behind the key's bytes would be unaligned: before */
	size_t key_len;
	char *key; /* exchange, zero, routing key */
};

struct filter_set {
	struct rule **filters; /* the generation's */
	unsigned count;
	struct plan *plans;
	unsigned plan_count;
	struct plan *spare; /* of a dry run, which leaves nothing behind */
};

static bool is_for_all(const struct rule *r)
{
	return strcmp(r->match_exchange, "*") == 0;
}

static bool is_match(const struct rule *r, struct slice exchange, struct slice key)
{
	return (is_for_all(r) || slice_is(exchange, r->match_exchange)) &&
	       topic_pattern_matches(slice_from(r->match_key), key);
}

struct filter_set *filter_set_create(const struct generation *g)
{
	struct filter_set *set = mem_zalloc(sizeof(*set));

	set->filters = mem_alloc((g->rule_count + 1) * sizeof(struct rule *));
	for (size_t i = 0; i < g->rule_count; i++) {
		if (g->rules[i]->match_exchange)
			set->filters[set->count++] = g->rules[i];
	}
	return set;
}

static void forget_plans(struct filter_set *set)
{
	struct plan *plan, *next;

	HASH_ITER (hh, set->plans, plan, next) {
		HASH_DEL(set->plans, plan);
		mem_free(plan);
	}
	set->plan_count = 0;
}

void filter_set_destroy(struct filter_set *set)
{
	if (!set)
		return;
	forget_plans(set);
	mem_free(set->spare);
	mem_free(set->filters);
	mem_free(set);
}

static struct plan *make_plan(struct filter_set *set, const struct msg *m, const char *id,
			      size_t id_len)
{
	size_t room = set->count * sizeof(uint16_t);
	struct plan *plan = mem_zalloc(sizeof(*plan) + room + id_len);

	plan->indexes = (uint16_t *)(plan + 1);
	plan->key = (char *)(plan + 1) + room;
	plan->key_len = id_len;
	memcpy(plan->key, id, id_len);
	for (unsigned i = 0; i < set->count; i++) {
		if (is_match(set->filters[i], m->exchange, m->key))
			plan->indexes[plan->count++] = (uint16_t)i;
	}
	return plan;
}

static struct plan *keep_plan(struct filter_set *set, struct plan *plan)
{
	if (set->plan_count >= PLANS_MAX)
		forget_plans(set);
	HASH_ADD_KEYPTR(hh, set->plans, plan->key, plan->key_len, plan);
	set->plan_count++;
	return plan;
}

/* Good until the next one is asked for. */
static const struct plan *find_plan(struct filter_set *set, const struct msg *m,
				    bool is_dry_run)
{
	char id[2 * NAME_LEN_MAX + 1];
	size_t id_len = m->exchange.len + 1 + m->key.len;
	struct plan *plan;

	if (m->exchange.len)
		memcpy(id, m->exchange.data, m->exchange.len);
	id[m->exchange.len] = '\0';
	if (m->key.len)
		memcpy(id + m->exchange.len + 1, m->key.data, m->key.len);
	HASH_FIND(hh, set->plans, id, id_len, plan);
	if (plan)
		return plan;
	plan = make_plan(set, m, id, id_len);
	if (!is_dry_run)
		return keep_plan(set, plan);
	mem_free(set->spare);
	return set->spare = plan;
}

struct filter_call {
	const struct rule *rule;
	struct draft *draft;
	bool is_rejected;
	char reason[REASON_MAX];
};

/* publish (msg) -> nothing, or false and a reason. A reason without `false` is a slip
 * that would let the message in. */
static int l_publish(lua_State *L)
{
	struct filter_call *c = lua_touserdata(L, 1);

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->rule->functions[RULE_DECIDE]);
	draft_push(L, c->draft);
	lua_call(L, 1, 2);
	bool is_let_in = lua_isnil(L, -2) || lua_toboolean(L, -2);
	if (is_let_in && lua_isnil(L, -1) && (lua_isnil(L, -2) || lua_isboolean(L, -2)))
		return 0;
	script_set_place(script_state_of(L), c->rule->file, c->rule->decide_line);
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
			.match_exchange = c->rule->match_exchange,
			.match_key = c->rule->match_key,
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
	const struct use use = { .rule = rule };
	struct filter_call call;
	unsigned copies = p->copies.count;
	/* EXPLAIN compares with the message as it stands before the filter. */
	struct msg *before = p->on_step ? draft_build(d) : NULL;
	uint64_t started_ns = before ? uv_hrtime() : 0;

	call.rule = rule;
	call.draft = d;
	call.is_rejected = false;
	const struct use_call asked = { .use = &use,
					.vhost = p->vhost,
					.context = p->context,
					.body = l_publish,
					.ctx = &call };
	int rc = use_decide(e, &asked, err);
	tell(p, &call, before, copies, before ? uv_hrtime() - started_ns : 0);
	for (unsigned i = copies; i < p->copies.count; i++) {
		p->copy_senders[i] = rule->file;
		p->copy_lines[i] = rule->decide_line;
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
			 rule->file, rule->decide_line, FILTER_HOPS_MAX);
}

/* The place in the plan of the first filter behind `index`. */
static unsigned place_behind(const struct plan *plan, unsigned index)
{
	unsigned i = 0;

	while (i < plan->count && plan->indexes[i] <= index)
		i++;
	return i;
}

static int run_chain(struct engine *e, const struct plan *plan, struct draft *d,
		     struct filter_pass *p, struct error *err)
{
	struct filter_set *set = e->filters;
	/* The filters for all exchanges that have seen the message, a bit for each. */
	uint64_t seen[GENERATION_RULES_MAX / 64];
	int rc = TIDE_OK;

	memset(seen, 0, (set->count + 63) / 64 * sizeof(*seen));
	for (unsigned i = 0; rc == TIDE_OK && i < plan->count; i++) {
		unsigned index = plan->indexes[i];
		uint64_t bit = UINT64_C(1) << index % 64;
		uint32_t exchanges = d->exchange_changes, keys = d->key_changes;
		if (seen[index / 64] & bit)
			continue;
		rc = run_filter(e, set->filters[index], d, p, err);
		if (is_for_all(set->filters[index]))
			seen[index / 64] |= bit;
		if (rc != TIDE_OK)
			break;
		bool is_moved = d->exchange_changes != exchanges;
		if (!is_moved && d->key_changes == keys)
			continue;
		/* Of the default exchange the key is the address. */
		if (is_moved || d->now.exchange.len == 0) {
			p->sender = set->filters[index]->file;
			p->sender_line = set->filters[index]->decide_line;
		}
		plan = find_plan(set, &d->now, is_dry(p));
		i = is_moved ? 0 : place_behind(plan, index);
		if (is_moved)
			rc = hop(p, set->filters[index], err);
		i--; /* the loop adds it again */
	}
	return rc;
}

unsigned filter_count(const struct engine *e)
{
	return e->filters->count;
}

int filter_run(struct engine *e, struct filter_pass *p, struct error *err)
{
	struct draft d;
	const struct plan *plan = find_plan(e->filters, p->msg, is_dry(p));

	p->copies.count = 0;
	if (plan->count == 0)
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
