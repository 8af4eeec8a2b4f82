#include "spec_hook.h"

#include <lauxlib.h>

#include "rules/engine/deliver.h"
#include "rules/engine/settled.h"
#include "rules/sandbox/field.h"
#include "spec_field.h"
#include "spec_msg.h"

/* Argument 3 is a table with these names, described by `what`; nil is an empty one. */
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

static void push_pass(lua_State *L, const struct deliver_pass *p)
{
	lua_newtable(L);
	spec_field_set_text(L, "verdict", deliver_verdict_names[p->verdict]);
	if (p->verdict != DELIVER_GIVE && p->reason[0])
		spec_field_set_text(L, "reason", p->reason);
	if (p->verdict == DELIVER_LATER)
		spec_field_set_integer(L, "delay", p->delay_ms);
	spec_field_set_text(L, "script", p->file);
	spec_field_set_headers(L, p->head ? p->head : p->msg);
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
		.vhost = spec_field_slice(L, 3, "vhost", "/"),
		.queue = spec_field_slice(L, 3, "queue", "spec"),
		.user = spec_field_slice(L, 3, "user", ""),
		.name = spec_field_slice(L, 3, "name", ""),
		.address = spec_field_slice(L, 3, "address", "127.0.0.1"),
		.protocol = spec_field_text(L, 3, "protocol", "line"),
		.sid = spec_field_text(L, 3, "sid", NULL),
		.channel = (unsigned)spec_field_integer(L, 3, "channel", 0),
		.unacked = (uint32_t)spec_field_integer(L, 3, "unacked", 0),
		.prefetch = (uint32_t)spec_field_integer(L, 3, "prefetch", 1),
	};
	struct deliver_pass p = { .msg = h->msg,
				  .attempt = (uint32_t)spec_field_integer(L, 3, "attempt",
									  1),
				  .keeps_order = spec_field_flag(L, 3, "keeps_order"),
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
	return (enum settled_event)luaL_checkoption(L, -1, "ack", script_kind_events);
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
		.reason = spec_field_text(L, 3, "reason", NULL),
		.rule = spec_field_text(L, 3, "rule", NULL),
		.group = spec_field_slice(L, 3, "group", ""),
		.partition = (uint32_t)spec_field_integer(L, 2, "partition", 0),
		.offset = (uint64_t)spec_field_integer(L, 2, "offset", 0),
		.vhost = spec_field_slice(L, 3, "vhost", "/"),
		.queue = spec_field_slice(L, 3, "queue", "spec"),
		.user = spec_field_slice(L, 3, "user", ""),
		.attempts = (uint32_t)spec_field_integer(L, 3, "attempts", 1),
		.failures = (uint32_t)spec_field_integer(L, 3, "failures", 0),
		.waited_ms = spec_field_integer(L, 3, "waited_ms", 0),
		.took_ms = spec_field_integer(L, 3, "took_ms", 0),
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
