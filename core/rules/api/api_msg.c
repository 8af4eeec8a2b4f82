#include "api_msg.h"

#include <lauxlib.h>

#include "base/id.h"
#include "decision_context.h"
#include "draft.h"
#include "view.h"

static const struct view_type headers_type;

static void push_slice(lua_State *L, struct slice s)
{
	lua_pushlstring(L, s.len ? s.data : "", s.len);
}

static const struct msg *message(const void *subject)
{
	return ((const struct api_msg *)subject)->msg;
}

static void push_exchange(lua_State *L, const void *subject)
{
	push_slice(L, message(subject)->exchange);
}

static void push_key(lua_State *L, const void *subject)
{
	push_slice(L, message(subject)->key);
}

/* The size of a payload that the message has lost; 0 when it has none. */
static size_t absent_bytes(lua_State *L, const struct msg *m)
{
	const struct decision_context *c = decision_context_of(L);

	return c && m->payload_len == 0 ? c->absent_bytes : 0;
}

static void push_payload(lua_State *L, const void *subject)
{
	const struct msg *m = message(subject);

	if (absent_bytes(L, m) > 0) {
		decision_context_of(L)->was_absent_read = true;
		luaL_error(
			L,
			"msg.payload is not there any more; see serve --replay-payloads");
	}
	push_slice(L, (struct slice){ m->payload, m->payload_len });
}

static void push_size(lua_State *L, const void *subject)
{
	const struct msg *m = message(subject);

	lua_pushinteger(L, (lua_Integer)(m->payload_len + absent_bytes(L, m)));
}

static void push_priority(lua_State *L, const void *subject)
{
	lua_pushinteger(L, message(subject)->priority);
}

static void push_id(lua_State *L, const void *subject)
{
	char hex[ID_HEX_LEN];

	id_format(message(subject)->id, hex);
	lua_pushlstring(L, hex, sizeof(hex));
}

static void push_ts(lua_State *L, const void *subject)
{
	lua_pushinteger(L, message(subject)->ts_unix_ms);
}

static void push_delay(lua_State *L, const void *subject)
{
	const struct msg *m = message(subject);
	int64_t delay_ms = m->due_unix_ms - m->ts_unix_ms;

	lua_pushinteger(L, m->due_unix_ms && delay_ms > 0 ? delay_ms : 0);
}

static void push_ttl(lua_State *L, const void *subject)
{
	const struct msg *m = message(subject);
	/* It lives so long from when it is due. */
	int64_t from_ms = m->due_unix_ms ? m->due_unix_ms : m->ts_unix_ms;

	if (m->expires_unix_ms)
		lua_pushinteger(L, m->expires_unix_ms - from_ms);
	else
		lua_pushnil(L);
}

static void push_dedupe_id(lua_State *L, const void *subject)
{
	struct slice id = msg_dedupe_id(message(subject));

	if (id.len)
		push_slice(L, id);
	else
		lua_pushnil(L);
}

static void push_user(lua_State *L, const void *subject)
{
	struct slice user = msg_user(message(subject));

	if (user.len)
		push_slice(L, user);
	else
		lua_pushnil(L);
}

static void push_attempt(lua_State *L, const void *subject)
{
	lua_pushinteger(L, ((const struct api_msg *)subject)->attempt);
}

static void push_headers(lua_State *L, const void *subject)
{
	view_push(L, &headers_type, subject);
}

/* All but the headers, which filters write to. */
#define COMMON_FIELDS                                                                    \
	{ "attempt", push_attempt }, { "dedupe_id", push_dedupe_id },                    \
		{ "delay", push_delay }, { "exchange", push_exchange },                  \
		{ "id", push_id }, { "key", push_key }, { "payload", push_payload },     \
		{ "priority", push_priority }, { "size", push_size }, { "ts", push_ts }, \
	{                                                                                \
		"ttl", push_ttl                                                          \
	}

static const struct view_field msg_fields[] = {
	COMMON_FIELDS,
	{ "headers", push_headers },
	{ NULL, NULL },
};
const struct view_field api_msg_draft_fields[] = {
	COMMON_FIELDS,
	{ "headers", draft_push_headers },
	{ "copy", draft_push_copy },
	{ "user", push_user },
	{ "vhost", draft_push_vhost },
	{ NULL, NULL },
};
static const struct view_type msg_type = { .name = "msg", .fields = msg_fields };

static int l_header(lua_State *L)
{
	const struct msg *m = message(view_check(L, 1, &headers_type));

	if (lua_type(L, 2) != LUA_TSTRING)
		return luaL_error(L, "a header's name is a string, not a %s",
				  luaL_typename(L, 2));
	struct slice name;
	name.data = lua_tolstring(L, 2, &name.len);
	struct slice value = msg_header(m, name);
	if (!value.data)
		return 0;
	push_slice(L, value);
	return 1;
}

/* Upvalues: the view, the number of the next header. */
static int l_next_header(lua_State *L)
{
	const struct msg *m = message(view_check(L, lua_upvalueindex(1), &headers_type));
	lua_Integer i = lua_tointeger(L, lua_upvalueindex(2));

	if (i >= m->header_count)
		return 0;
	lua_pushinteger(L, i + 1);
	lua_replace(L, lua_upvalueindex(2));
	push_slice(L, m->headers[i].name);
	push_slice(L, m->headers[i].value);
	return 2;
}

static int l_headers(lua_State *L)
{
	view_check(L, 1, &headers_type);
	lua_settop(L, 1);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, l_next_header, 2);
	return 1;
}

static const struct view_type headers_type = { .name = "msg.headers",
					       .index = l_header,
					       .pairs = l_headers };

void api_msg_open(lua_State *L)
{
	view_open(L, &msg_type);
	view_open(L, &headers_type);
}

void api_msg_push(lua_State *L, const struct api_msg *m)
{
	view_push(L, &msg_type, m);
}
