/* carry.c: copies of what strategies keep, for the next generation. */

#include <lauxlib.h>

#include "engine_private.h"
#include "host/log.h"

/* Keys and values of one use; copying a million takes about 0.1 s. */
#define CARRY_VALUES_MAX 1000000
/* Tables inside tables; bounds the recursion of the copy. */
#define CARRY_DEPTH_MAX 64

struct carrying {
	lua_State *from; /* the former generation's; nothing runs in it */
	const struct use *source;
	struct use *use;
	unsigned values; /* copied so far */
	int old;         /* reference of the copy */
};

/* An error raised in `from` would not be caught: the functions called there neither
 * allocate nor convert. */
static void copy_value(lua_State *L, struct carrying *c, int copies, int depth);

static bool is_key(int type)
{
	return type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TBOOLEAN;
}

static void copy_fields(lua_State *L, struct carrying *c, int copies, int depth)
{
	int table = lua_gettop(L);

	if (depth == CARRY_DEPTH_MAX || !lua_checkstack(c->from, 4))
		luaL_error(L, "a carried state may nest at most %d tables",
			   CARRY_DEPTH_MAX);
	luaL_checkstack(L, 4, NULL);
	for (lua_pushnil(c->from); lua_next(c->from, -2) != 0; lua_pop(c->from, 1)) {
		if (!is_key(lua_type(c->from, -2)))
			continue;
		copy_value(L, c, copies, depth + 1);
		if (lua_isnil(L, -1)) {
			lua_pop(L, 1);
			continue;
		}
		lua_pushvalue(c->from, -2);
		copy_value(L, c, copies, depth + 1);
		lua_pop(c->from, 1);
		lua_insert(L, -2);
		lua_rawset(L, table);
	}
}

/* A table that is met again is the same one in the copy too. */
static void copy_table(lua_State *L, struct carrying *c, int copies, int depth)
{
	const void *identity = lua_topointer(c->from, -1);

	if (lua_rawgetp(L, copies, identity) == LUA_TTABLE)
		return;
	lua_pop(L, 1);
	lua_newtable(L);
	lua_pushvalue(L, -1);
	lua_rawsetp(L, copies, identity);
	copy_fields(L, c, copies, depth);
}

/* Push what is on the top of `from`; nil for what cannot go over. */
static void copy_value(lua_State *L, struct carrying *c, int copies, int depth)
{
	size_t len;
	const char *text;

	if (++c->values > CARRY_VALUES_MAX)
		luaL_error(L, "a carried state has at most %d keys and values",
			   CARRY_VALUES_MAX);
	switch (lua_type(c->from, -1)) {
	case LUA_TTABLE:
		copy_table(L, c, copies, depth);
		break;
	case LUA_TSTRING:
		text = lua_tolstring(c->from, -1, &len);
		lua_pushlstring(L, text, len);
		break;
	case LUA_TNUMBER:
		if (lua_isinteger(c->from, -1))
			lua_pushinteger(L, lua_tointeger(c->from, -1));
		else
			lua_pushnumber(L, lua_tonumber(c->from, -1));
		break;
	case LUA_TBOOLEAN:
		lua_pushboolean(L, lua_toboolean(c->from, -1));
		break;
	default:
		lua_pushnil(L);
	}
}

static int l_copy(lua_State *L)
{
	struct carrying *c = lua_touserdata(L, 1);

	script_set_place(script_state_of(L), rule_code_file(c->use->rule),
			 c->use->rule->lines[RULE_DECIDE]);
	lua_newtable(L);
	int copies = lua_gettop(L);
	lua_rawgeti(c->from, LUA_REGISTRYINDEX, c->source->state);
	copy_value(L, c, copies, 0);
	c->old = luaL_ref(L, LUA_REGISTRYINDEX);
	return 0;
}

/* carry (old, opts) -> state; nil: that of `new` stays */
static int l_carry(lua_State *L)
{
	struct carrying *c = lua_touserdata(L, 1);

	lua_rawgeti(L, LUA_REGISTRYINDEX, c->use->rule->functions[RULE_CARRY]);
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->old);
	lua_rawgeti(L, LUA_REGISTRYINDEX, c->use->options);
	lua_call(L, 2, 1);
	if (!lua_isnil(L, -1))
		lua_rawseti(L, LUA_REGISTRYINDEX, c->use->state);
	return 0;
}

/* The copy is not the script's doing: its time is not taken from the budget. */
static int run(struct script_state *s, struct carrying *c, struct error *err)
{
	struct rule *rule = c->use->rule;
	struct script_call call = { .file = rule->file,
				    .model = rule->model,
				    .stats = &rule->stats,
				    .account = c->use->account,
				    .body = l_copy,
				    .ctx = c };
	int top = lua_gettop(c->from);
	int rc = lua_checkstack(c->from, 4)
			 ? script_enter(s, &call, err)
			 : error_set(err, TIDE_ELIMIT,
				     "out of memory for the carried state");

	lua_settop(c->from, top);
	call.body = l_carry;
	if (rc == TIDE_OK && c->old != LUA_REFNIL)
		rc = script_enter(s, &call, err);
	luaL_unref(s->L, LUA_REGISTRYINDEX, c->old);
	return rc;
}

static void carry_state(struct engine *e, struct use *use, const struct use *source,
			const char *user)
{
	struct carrying c = { .from = e->former->script.L,
			      .source = source,
			      .use = use,
			      .old = LUA_NOREF };
	struct error err;

	use->must_carry = false;
	if (source->state == LUA_NOREF || source->state == LUA_REFNIL)
		return;
	if (run(&e->current->script, &c, &err) != TIDE_OK)
		log_warn("%s: the reload loses the state of %s: %s", e->tide.about, user,
			 err.text);
}

void carry_use(const struct handle *h)
{
	const struct generation *former = h->engine->former;
	struct use *use = handle_use(h);

	if (!use->must_carry)
		return;
	use->must_carry = false;
	if (h->number < former->use_count && former->uses[h->number].rule)
		carry_state(h->engine, use, &former->uses[h->number], h->user);
}

void carry_own(struct engine *e, struct rule *rule)
{
	const struct rule *old;

	if (!rule->own.must_carry)
		return;
	rule->own.must_carry = false;
	old = generation_find(e->former, rule->kind, slice_from(rule->name));
	if (old)
		carry_state(e, &rule->own, &old->own, rule->file);
}

static struct generation *end(struct engine *e)
{
	struct generation *former = e->former;

	e->former = NULL;
	e->carry_at = NULL;
	return former;
}

struct generation *carry_begin(struct engine *e, struct generation *old)
{
	/* State that filled the memory of one generation would fill the next one's too.
	 */
	if (!old || !e->current->must_carry || old->script.is_exhausted)
		return old;
	e->former = old;
	e->carry_at = TAILQ_FIRST(&e->handles);
	e->carry_rule = 0;
	return NULL;
}

/* False when there is nobody left. */
static bool step(struct engine *e)
{
	const struct handle *h = e->carry_at;

	if (h) {
		e->carry_at = TAILQ_NEXT(h, link);
		carry_use(h);
	} else if (e->carry_rule < e->current->rule_count) {
		carry_own(e, e->current->rules[e->carry_rule++]);
	} else {
		return false;
	}
	return true;
}

struct generation *carry_turn(struct engine *e, int64_t max_ns)
{
	int64_t started_ns = (int64_t)uv_hrtime();
	bool is_left = true;

	while (is_left && (int64_t)uv_hrtime() - started_ns < max_ns)
		is_left = step(e);
	return is_left ? NULL : end(e);
}

void carry_finish(struct engine *e)
{
	if (!e->former)
		return;
	while (step(e))
		;
	generation_destroy(end(e));
}
