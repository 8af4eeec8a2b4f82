#include "spec_hook.h"

#include <lauxlib.h>

#include "rules/engine/deliver.h"
#include "rules/engine/settled.h"
#include "rules/sandbox/field.h"
#include "spec_msg.h"

/* A word of the table at 3. It stays on the stack. */
static const char *word(lua_State *L, const char *name, const char *preset)
{
	lua_getfield(L, 3, name);
	return luaL_optstring(L, -1, preset);
}

static lua_Integer number(lua_State *L, const char *name, lua_Integer preset)
{
	lua_getfield(L, 3, name);
	return luaL_optinteger(L, -1, preset);
}

static bool flag(lua_State *L, const char *name)
{
	lua_getfield(L, 3, name);
	return lua_toboolean(L, -1);
}

/* Without one it is an empty table. `what` is in it, with these names. */
static void check_table(lua_State *L, const char *what, const char *const *names)
{
	lua_settop(L, 3);
	if (lua_isnil(L, 3)) {
		lua_newtable(L);
		lua_replace(L, 3);
	}
	luaL_checktype(L, 3, LUA_TTABLE);
	luaL_checkstack(L, 40, NULL);
	field_check_names(L, 3, what, names);
}

static void push_headers(lua_State *L, const struct msg *m)
{
	lua_newtable(L);
	for (unsigned i = 0; i < m->header_count; i++) {
		field_push(L, m->headers[i].name);
		field_push(L, m->headers[i].value);
		lua_rawset(L, -3);
	}
}

static void push_pass(lua_State *L, const struct deliver_pass *p)
{
	lua_newtable(L);
	lua_pushstring(L, deliver_verdict_names[p->verdict]);
	lua_setfield(L, -2, "verdict");
	if (p->verdict != DELIVER_GIVE && p->reason[0]) {
		lua_pushstring(L, p->reason);
		lua_setfield(L, -2, "reason");
	}
	if (p->verdict == DELIVER_LATER) {
		lua_pushinteger(L, p->delay_ms);
		lua_setfield(L, -2, "delay");
	}
	lua_pushstring(L, p->file);
	lua_setfield(L, -2, "script");
	push_headers(L, p->head ? p->head : p->msg);
	lua_setfield(L, -2, "headers");
}

int spec_hook_deliver(lua_State *L, const struct spec_hook *h, struct error *err)
{
	static const char *const names[] = { "vhost",    "queue",   "user",
					     "name",     "address", "protocol",
					     "sid",      "channel", "unacked",
					     "prefetch", "attempt", "keeps_order",
					     NULL };

	check_table(L, "a consumer", names);
	const struct consumer_view consumer = {
		.vhost = slice_from(word(L, "vhost", "/")),
		.queue = slice_from(word(L, "queue", "spec")),
		.user = slice_from(word(L, "user", "")),
		.name = slice_from(word(L, "name", "")),
		.address = slice_from(word(L, "address", "127.0.0.1")),
		.protocol = word(L, "protocol", "line"),
		.sid = word(L, "sid", NULL),
		.channel = (unsigned)number(L, "channel", 0),
		.unacked = (uint32_t)number(L, "unacked", 0),
		.prefetch = (uint32_t)number(L, "prefetch", 1),
	};
	struct deliver_pass p = { .msg = h->msg,
				  .attempt = (uint32_t)number(L, "attempt", 1),
				  .keeps_order = flag(L, "keeps_order"),
				  .consumer = &consumer,
				  .context = h->context,
				  .now_unix_ms = h->msg->ts_unix_ms };
	int rc = deliver_run(h->engine, &p, err);
	if (rc == TIDE_OK)
		push_pass(L, &p);
	msg_unref(p.head);
	return rc;
}

/* The first failure is told. */
static void on_step(void *ctx, const struct settled_step *step)
{
	struct error *err = ctx;

	if (err->code == TIDE_OK)
		*err = *step->failure;
}

static enum settled_event read_event(lua_State *L)
{
	lua_getfield(L, 3, "event");
	return (enum settled_event)luaL_checkoption(L, -1, "ack", settled_event_names);
}

int spec_hook_settled(lua_State *L, const struct spec_hook *h, struct error *err)
{
	static const char *const names[] = { "event",     "reason",   "rule",
					     "group",     "vhost",    "queue",
					     "user",      "attempts", "failures",
					     "waited_ms", "took_ms",  NULL };

	check_table(L, "an outcome", names);
	const struct outcome_view outcome = {
		.event = read_event(L),
		.reason = word(L, "reason", NULL),
		.rule = word(L, "rule", NULL),
		.group = slice_from(word(L, "group", "")),
		.partition = (uint32_t)spec_msg_integer(L, 2, "partition", 0),
		.offset = (uint64_t)spec_msg_integer(L, 2, "offset", 0),
		.vhost = slice_from(word(L, "vhost", "/")),
		.queue = slice_from(word(L, "queue", "spec")),
		.user = slice_from(word(L, "user", "")),
		.attempts = (uint32_t)number(L, "attempts", 1),
		.failures = (uint32_t)number(L, "failures", 0),
		.waited_ms = number(L, "waited_ms", 0),
		.took_ms = number(L, "took_ms", 0),
	};
	struct settled_pass p = { .msg = h->msg,
				  .outcome = &outcome,
				  .context = h->context,
				  .now_unix_ms = h->msg->ts_unix_ms,
				  .copies = { .max = DRAFT_COPIES_MAX },
				  .on_step = on_step,
				  .ctx = err };
	err->code = TIDE_OK;
	settled_run(h->engine, &p);
	lua_newtable(L);
	for (unsigned i = 0; i < p.copies.count; i++) {
		spec_msg_push(L, p.copies.items[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
		msg_unref(p.copies.items[i]);
	}
	return err->code;
}
