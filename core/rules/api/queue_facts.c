#include "queue_facts.h"

#include <lauxlib.h>
#include <string.h>

#include "rules/sandbox/script.h"
#include "view.h"

const char *const queue_facts_names[] = {
	[QUEUE_FACT_READY] = "ready",         [QUEUE_FACT_UNACKED] = "unacked",
	[QUEUE_FACT_DELAYED] = "delayed",     [QUEUE_FACT_BURIED] = "buried",
	[QUEUE_FACT_CONSUMERS] = "consumers", [QUEUE_FACT_MESSAGES] = "messages",
	[QUEUE_FACT_BYTES] = "bytes",         [QUEUE_FACT_OLDEST_MS] = "oldest_ms",
	[QUEUE_FACT_IN_RATE] = "in_rate",     [QUEUE_FACT_OUT_RATE] = "out_rate",
};

/* Registry key: the struct queue_facts. */
static const char source_key;

static void push(lua_State *L, const void *queue, enum queue_fact fact)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &source_key);
	const struct queue_facts *source = lua_touserdata(L, -1);
	lua_pop(L, 1);
	double n = source->read(queue, fact);

	if (n < 0)
		lua_pushnil(L);
	else if (fact == QUEUE_FACT_IN_RATE || fact == QUEUE_FACT_OUT_RATE)
		lua_pushnumber(L, n);
	else
		lua_pushinteger(L, (lua_Integer)n);
}

#define FACT(name, fact)                                         \
	static void push_##name(lua_State *L, const void *queue) \
	{                                                        \
		push(L, queue, fact);                            \
	}
FACT(ready, QUEUE_FACT_READY)
FACT(unacked, QUEUE_FACT_UNACKED)
FACT(delayed, QUEUE_FACT_DELAYED)
FACT(buried, QUEUE_FACT_BURIED)
FACT(consumers, QUEUE_FACT_CONSUMERS)
FACT(messages, QUEUE_FACT_MESSAGES)
FACT(bytes, QUEUE_FACT_BYTES)
FACT(oldest_ms, QUEUE_FACT_OLDEST_MS)
FACT(in_rate, QUEUE_FACT_IN_RATE)
FACT(out_rate, QUEUE_FACT_OUT_RATE)

static const struct view_field fields[] = {
	{ .name = "ready", .push = push_ready },
	{ .name = "unacked", .push = push_unacked },
	{ .name = "delayed", .push = push_delayed },
	{ .name = "buried", .push = push_buried },
	{ .name = "consumers", .push = push_consumers },
	{ .name = "messages", .push = push_messages },
	{ .name = "bytes", .push = push_bytes },
	{ .name = "oldest_ms", .push = push_oldest_ms },
	{ .name = "in_rate", .push = push_in_rate },
	{ .name = "out_rate", .push = push_out_rate },
	{ .name = NULL },
};
static const struct view_type type = { .number = VIEW_QUEUE_FACTS,
				       .name = "tide.queue",
				       .fields = fields };

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
