#include "spec_msg.h"

#include "rules/sandbox/field.h"

static void set_slice(lua_State *L, const char *name, struct slice value)
{
	field_push(L, value);
	lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, int64_t value)
{
	lua_pushinteger(L, value);
	lua_setfield(L, -2, name);
}

static void set_headers(lua_State *L, const struct msg_header *headers, unsigned count)
{
	lua_newtable(L);
	for (unsigned i = 0; i < count; i++) {
		field_push(L, headers[i].name);
		field_push(L, headers[i].value);
		lua_rawset(L, -3);
	}
	lua_setfield(L, -2, "headers");
}

void spec_msg_push(lua_State *L, const struct msg *m)
{
	lua_newtable(L);
	set_slice(L, "exchange", msg_exchange_word(m));
	if (m->dedupe_len)
		set_slice(L, "dedupe_id", msg_dedupe_id(m));
	if (m->user_len)
		set_slice(L, "user", msg_user(m));
	set_slice(L, "key", m->key);
	set_slice(L, "payload", (struct slice){ m->payload, m->payload_len });
	set_integer(L, "id", (int64_t)m->id);
	set_integer(L, "priority", m->priority);
	set_integer(L, "due", m->due_unix_ms);
	set_integer(L, "delay", m->due_unix_ms ? m->due_unix_ms - m->ts_unix_ms : 0);
	set_integer(L, "expires", m->expires_unix_ms);
	set_headers(L, m->headers, m->header_count);
}

void spec_msg_push_scheduled(lua_State *L, const struct msg *m)
{
	lua_newtable(L);
	set_slice(L, "exchange", msg_exchange_word(m));
	set_slice(L, "key", m->key);
	set_slice(L, "payload", (struct slice){ m->payload, m->payload_len });
	set_integer(L, "delay", m->due_unix_ms);
	set_integer(L, "priority", m->priority);
	set_headers(L, m->headers, m->header_count);
}
