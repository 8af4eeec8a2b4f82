#include "queue_facts.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "figures/figure.h"
#include "figures/figure_rows.h"
#include "rules/sandbox/safe_lib.h"
#include "rules/sandbox/script.h"
#include "view.h"

#define NAME(read, name, shown, sort, script, ...) script,
const char *const queue_facts_names[] = { QUEUE_FIGURES(NAME) };
const unsigned queue_facts_count =
	sizeof(queue_facts_names) / sizeof(queue_facts_names[0]);

#define KIND(read, name, shown, sort, script, metric, kind, ...) kind,
static const enum figure_kind kinds[] = { QUEUE_FIGURES(KIND) };

/* Registry key: the struct queue_facts. */
static const char source_key;

static void push_number(lua_State *L, unsigned row, double n)
{
	if (isnan(n))
		lua_pushnil(L);
	else if (kinds[row] == FIGURE_RATE)
		lua_pushnumber(L, n);
	else
		lua_pushinteger(L, (lua_Integer)n);
}

static int refuse_field(lua_State *L, const char *name)
{
	luaL_Buffer names;

	luaL_buffinit(L, &names);
	for (unsigned i = 0; i < queue_facts_count; i++) {
		if (!queue_facts_names[i])
			continue;
		luaL_addchar(&names, ' ');
		luaL_addstring(&names, queue_facts_names[i]);
	}
	luaL_pushresult(&names);
	return luaL_error(L, "there is no 'tide.queue.%s'; it has%s", name,
			  lua_tostring(L, -1));
}

/* (view, name) -> the fact of now */
static int l_field(lua_State *L)
{
	const void *queue = view_self(L);
	const char *name = safe_lib_tolstring(L, 2, NULL);
	unsigned row = 0;

	while (row < queue_facts_count && !(queue_facts_names[row] && name &&
					    strcmp(queue_facts_names[row], name) == 0))
		row++;
	if (row == queue_facts_count)
		return refuse_field(L, name ? name : "?");
	lua_rawgetp(L, LUA_REGISTRYINDEX, &source_key);
	const struct queue_facts *source = lua_touserdata(L, -1);
	push_number(L, row, source->read(queue, row));
	return 1;
}

static const struct view_type type = { .number = VIEW_QUEUE_FACTS,
				       .name = "tide.queue",
				       .index = l_field };

/* A route is of the message and the bindings alone. */
static void check_allowed(lua_State *L)
{
	const struct script_state *s = script_state_of(L);

	script_check_pure(L, "tide.queue()");
	if (!s->vhost.data)
		luaL_error(L, "tide.queue() answers while a script decides, not while it "
			      "is loaded or bound");
	if (slice_has_prefix(slice_from(s->file), "routing/"))
		luaL_error(L, "a routing script may not look at tide.queue(): a route "
			      "depends on the message and the bindings alone; use a "
			      "filter");
}

/* queue (name) -> the view, or nil */
static int l_queue(lua_State *L)
{
	const struct queue_facts *source = lua_touserdata(L, lua_upvalueindex(1));
	const struct script_state *s = script_state_of(L);
	const void *queue;
	struct slice name;

	name.data = luaL_checklstring(L, 1, &name.len);
	check_allowed(L);
	queue = source->find ? source->find(source->ctx, s->vhost, name) : NULL;
	if (queue)
		view_push(L, &type, queue);
	else
		lua_pushnil(L);
	return 1;
}

void queue_facts_push(lua_State *L, const struct queue_facts *source)
{
	lua_pushlightuserdata(L, (void *)source);
	lua_pushcclosure(L, l_queue, 1);
}

void queue_facts_open(lua_State *L, const struct queue_facts *source)
{
	view_open(L, &type);
	lua_pushlightuserdata(L, (void *)source);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &source_key);
}
