#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine_private.h"

struct using
{
	struct use *use;
	const struct args *options;
};

/* Each reference is in the use before the next step may raise. */
static int l_use(lua_State *L)
{
	struct using *u = lua_touserdata(L, 1);
	struct use *use = u->use;
	struct rule *rule = use->rule;

	script_set_place(script_state_of(L), rule->file, rule->lines[RULE_DECIDE]);
	options_push(L, &rule->options, u->options);
	lua_pushvalue(L, -1);
	use->options = luaL_ref(L, LUA_REGISTRYINDEX);
	use->is_pure = rule->pure == RULE_PURE;
	if (rule->pure == RULE_PURE_BY_OPTIONS) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, rule->pure_function);
		lua_pushvalue(L, -2);
		lua_call(L, 1, 1);
		use->is_pure = lua_toboolean(L, -1);
		lua_pop(L, 1);
	}
	if (rule->functions[RULE_NEW] != LUA_NOREF) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, rule->functions[RULE_NEW]);
		lua_pushvalue(L, -2);
		lua_call(L, 1, 1);
		use->state = luaL_ref(L, LUA_REGISTRYINDEX);
	}
	return 0;
}

static struct use *make_room(struct generation *g, size_t number)
{
	if (number >= g->use_count) {
		size_t count = number + number / 2 + 8;
		g->uses = mem_realloc(g->uses, count * sizeof(*g->uses));
		memset(g->uses + g->use_count, 0,
		       (count - g->use_count) * sizeof(*g->uses));
		g->use_count = count;
	}
	return &g->uses[number];
}

int use_open(struct generation *g, const struct handle *h, struct rule *rule,
	     struct error *err)
{
	size_t number = h->number;
	char script[SCRIPT_PLACE_MAX];

	snprintf(script, sizeof(script), "%s/%s", script_kind_name(rule->kind),
		 rule->name);
	int rc = options_check(&rule->options, &h->options, script, err);
	if (rc != TIDE_OK)
		return rc;
	struct use *use = make_room(g, number);
	*use = (struct use){ .rule = rule, .options = LUA_NOREF, .state = LUA_NOREF };
	use->account =
		account_open(&g->script.accounts, rule->file, slice_from(h->vhost));
	struct using using = { use, &h->options };
	struct script_call call = { .file = rule->file,
				    .stats = &rule->stats,
				    .account = use->account,
				    .body = l_use,
				    .ctx = &using };
	rc = script_enter(&g->script, &call, err);
	if (rc != TIDE_OK)
		use_release(g, number);
	return rc;
}

void use_release(struct generation *g, size_t number)
{
	if (number >= g->use_count || !g->uses[number].rule)
		return;
	struct use *use = &g->uses[number];
	/* A reference's slot exists, so giving it back allocates nothing. */
	luaL_unref(g->script.L, LUA_REGISTRYINDEX, use->options);
	luaL_unref(g->script.L, LUA_REGISTRYINDEX, use->state);
	use->rule = NULL;
}

/* The account of the call's vhost. Accounts live as long as their Lua state. */
static struct account *account_of(struct script_state *s, const struct use_call *c)
{
	struct rule *rule = c->use->rule;

	if (c->use->account)
		return c->use->account;
	if (!rule->recent || !slice_is_equal(rule->recent->vhost, c->vhost))
		rule->recent = account_open(&s->accounts, rule->file, c->vhost);
	return rule->recent;
}

void use_blame(lua_State *L, const struct use_call *c)
{
	const struct rule *rule = c->use->rule;

	script_set_place(script_state_of(L), rule_code_file(rule),
			 rule->lines[c->function]);
}

static const struct script_function *function_of(const struct use_call *c)
{
	return &script_kind_rows[c->use->rule->kind].functions[c->function];
}

int use_refuse_result(lua_State *L, const struct use_call *c)
{
	const struct script_function *f = function_of(c);
	int type = lua_type(L, -1);
	bool is_shown = type == LUA_TNUMBER && f->results & RESULT_NUMBER;

	use_blame(L, c);
	return luaL_error(L, "%s must return %s, not %s%s", f->name, f->wanted,
			  is_shown || type == LUA_TNIL ? "" : "a ",
			  is_shown ? lua_tostring(L, -1) : luaL_typename(L, -1));
}

/* The value on the top as enum script_result. */
static unsigned result_of(lua_State *L, int idx)
{
	switch (lua_type(L, idx)) {
	case LUA_TNIL:
		return RESULT_NIL;
	case LUA_TBOOLEAN:
		return lua_toboolean(L, idx) ? RESULT_TRUE : RESULT_FALSE;
	case LUA_TNUMBER:
		return RESULT_NUMBER;
	case LUA_TSTRING:
		return RESULT_TEXT;
	case LUA_TTABLE:
		return RESULT_TABLE;
	default:
		return RESULT_OTHER;
	}
}

/* The reason on the top, or nil. No client sees a password or a secret in it. */
static void read_reason(lua_State *L, const struct use_call *c, unsigned result)
{
	const char *preset = script_kind_rows[c->use->rule->kind].refusal;
	const char *reason = luaL_optstring(L, -1, "");

	if (reason[strspn(reason, " \t\r\n")] == '\0')
		reason = preset && result == RESULT_FALSE ? preset : "";
	if (!script_hides(script_state_of(L), slice_from(reason)))
		snprintf(c->refusal->reason, REFUSAL_MAX, "%s", reason);
	else
		snprintf(c->refusal->reason, REFUSAL_MAX,
			 "%s, for a reason with a password or a secret",
			 preset ? preset : "a script refused it");
}

/* The two results of a function that may refuse; leaves the first. A reason without a
 * refusal is a slip, which would let a message or somebody in. */
static void read_refusal(lua_State *L, const struct use_call *c, unsigned results)
{
	unsigned result = result_of(L, -2);
	bool may_explain =
		result == RESULT_FALSE ||
		(results & RESULT_REASON && result & (RESULT_NUMBER | RESULT_TEXT));

	if (!lua_isnil(L, -1) && (!may_explain || lua_type(L, -1) != LUA_TSTRING)) {
		use_blame(L, c);
		luaL_error(L,
			   "%s returned a second value, a %s: to refuse it must return "
			   "false and a reason, which is a text",
			   function_of(c)->name, luaL_typename(L, -1));
	}
	c->refusal->is_refused = result == RESULT_FALSE;
	if (may_explain)
		read_reason(L, c, result);
	lua_pop(L, 1);
}

/* Runs inside the door: the call that the row describes. */
static int l_decide(lua_State *L)
{
	const struct use_call *c = lua_touserdata(L, 1);
	const struct script_function *f = function_of(c);
	const struct script_argument *a = f->arguments;
	int count = 0;

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->use->rule->functions[c->function]);
	for (; count < SCRIPT_ARGUMENTS_MAX && a[count].push; count++)
		a[count].push(L, c, a[count].view, c->given[count]);
	if (f->results == 0) {
		lua_call(L, count, 0);
		return 0;
	}
	lua_call(L, count, f->results & RESULT_FALSE ? 2 : 1);
	if (f->results & RESULT_FALSE)
		read_refusal(L, c, f->results);
	unsigned result = result_of(L, -1);
	if ((f->results & result) == 0)
		return use_refuse_result(L, c);
	/* Errors in the fields are told there. */
	if (result == RESULT_TABLE)
		use_blame(L, c);
	if (c->take)
		c->take(L, c, result);
	return 0;
}

int use_decide(struct engine *e, const struct use_call *c, struct error *err)
{
	struct rule *rule = c->use->rule;
	struct script_state *s = &e->current->script;
	struct account *account = account_of(s, c);
	struct dry_run *costs = c->context ? c->context->costs : NULL;
	struct line_trace *trace = c->context ? c->context->trace : NULL;
	bool is_counted =
		!c->context || !(c->context->is_dry || c->context->is_uncounted);
	struct script_call call = { .file = rule->file,
				    .model = rule->model,
				    .stats = is_counted ? &rule->stats : NULL,
				    .vhost = c->handle ? slice_from(c->handle->vhost)
						       : c->vhost,
				    .account = account,
				    .is_decision = true,
				    .is_next = c->is_next,
				    .is_pure = c->is_pure,
				    .context = c->context,
				    .password = c->password,
				    .body = l_decide,
				    .ctx = (void *)(uintptr_t)c };
	struct circuit *circuit = circuit_find(e, c);

	if (trace)
		trace->line = 0;
	if (c->refusal) {
		c->refusal->is_refused = false;
		c->refusal->reason[0] = '\0';
	}
	if (account->is_exhausted && !room_allows_call(e, account, err))
		return TIDE_ERULE;
	if (circuit && !circuit_allows(e, circuit, err)) {
		rule->stats.skipped += is_counted;
		return TIDE_ERULE;
	}
	e->call_count++;
	uint64_t started_ns = costs ? uv_hrtime() : 0;
	if (trace)
		line_trace_begin(trace, s->L, rule_code_file(rule));
	int rc = script_enter(s, &call, err);
	if (s->documents->held_bytes > DOCUMENTS_KEPT_BYTES)
		document_trim(s->documents);
	if (trace)
		line_trace_end(s->L);
	if (costs)
		dry_run_count(costs, rule->file, uv_hrtime() - started_ns);
	if (is_counted && rc != TIDE_OK && script_was_costly(s))
		circuit_count_failure(e, c, err);
	else if (is_counted && circuit)
		circuit_count_success(e, circuit);
	if (s->was_refused || account->is_exhausted)
		room_after_call(e, account, rc);
	if (rc == TIDE_OK && c->refusal && c->refusal->is_refused)
		rule->stats.rejected += script_kind_rows[rule->kind].refusal &&
					!(c->context && c->context->is_dry);
	return rc;
}
