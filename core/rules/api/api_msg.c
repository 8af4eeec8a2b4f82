#include "api_msg.h"

#include <lauxlib.h>

#include "base/id.h"
#include "decision_context.h"
#include "document.h"
#include "rules/sandbox/field.h"
#include "view.h"

static const struct view_type headers_type;

void api_msg_push_optional(lua_State *L, struct slice s)
{
	if (s.len)
		field_push(L, s);
	else
		lua_pushnil(L);
}

static const struct msg *message(const void *subject)
{
	return ((const struct api_msg *)subject)->msg;
}

static void push_exchange(lua_State *L, const void *subject)
{
	field_push(L, msg_exchange_word(message(subject)));
}

static void push_key(lua_State *L, const void *subject)
{
	field_push(L, message(subject)->key);
}

/* The size of a payload that the message has lost; 0 when it has none. */
static size_t absent_bytes(lua_State *L, const struct msg *m)
{
	const struct decision_context *c = decision_context_of(L);

	return c && m->payload_len == 0 ? c->absent_bytes : 0;
}

/* Raises when the message has lost it. */
static struct slice payload(lua_State *L, const void *subject, const char *field)
{
	const struct msg *m = message(subject);

	if (absent_bytes(L, m) > 0) {
		decision_context_of(L)->was_absent_read = true;
		luaL_error(L,
			   "%s is no longer kept; start the broker with "
			   "--replay-payloads",
			   field);
	}
	return (struct slice){ m->payload, m->payload_len };
}

static void push_payload(lua_State *L, const void *subject)
{
	field_push(L, payload(L, subject, "msg.payload"));
}

static void push_json(lua_State *L, const void *subject)
{
	const struct decision_context *c = decision_context_of(L);

	document_push(L, payload(L, subject, "msg.json"), c ? c->unread : NULL);
}

static void push_json_error(lua_State *L, const void *subject)
{
	document_push_error(L, payload(L, subject, "msg.json_error"));
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
	api_msg_push_optional(L, msg_dedupe_id(message(subject)));
}

static void push_attempt(lua_State *L, const void *subject)
{
	lua_pushinteger(L, ((const struct api_msg *)subject)->attempt);
}

static void push_in_topic(lua_State *L, const struct api_msg *m, uint64_t n)
{
	if (m->has_place)
		lua_pushinteger(L, (lua_Integer)n);
	else
		lua_pushnil(L);
}

static void push_partition(lua_State *L, const void *subject)
{
	const struct api_msg *m = subject;

	push_in_topic(L, m, m->partition);
}

static void push_offset(lua_State *L, const void *subject)
{
	const struct api_msg *m = subject;

	push_in_topic(L, m, m->offset);
}

static void push_headers(lua_State *L, const void *subject)
{
	view_push(L, &headers_type, subject);
}

/* All but the headers, which filters write to. */
const struct view_field api_msg_fields[] = {
	{ .name = "attempt", .push = push_attempt },
	{ .name = "dedupe_id", .push = push_dedupe_id },
	{ .name = "delay", .push = push_delay },
	{ .name = "exchange", .push = push_exchange, .is_pure = true },
	{ .name = "id", .push = push_id },
	{ .name = "json", .push = push_json },
	{ .name = "json_error", .push = push_json_error },
	{ .name = "key", .push = push_key, .is_pure = true },
	{ .name = "offset", .push = push_offset },
	{ .name = "partition", .push = push_partition },
	{ .name = "payload", .push = push_payload },
	{ .name = "priority", .push = push_priority },
	{ .name = "size", .push = push_size },
	{ .name = "ts", .push = push_ts },
	{ .name = "ttl", .push = push_ttl },
	{ .name = NULL },
};
static const struct view_field headers_field[] = {
	{ .name = "headers", .push = push_headers }, { .name = NULL }
};
static const struct view_type msg_type = {
	.number = VIEW_MSG, .name = "msg", .fields = headers_field, .more = api_msg_fields
};

struct slice api_msg_header_name(lua_State *L, int idx)
{
	if (lua_type(L, idx) != LUA_TSTRING)
		luaL_error(L, "a header's name must be a text, not a %s",
			   luaL_typename(L, idx));
	return field_slice(L, idx);
}

int api_msg_header(lua_State *L)
{
	const struct msg *m = message(view_self(L));
	struct slice value = msg_header(m, api_msg_header_name(L, 2));

	if (!value.data)
		return 0;
	field_push(L, value);
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
	field_push(L, m->headers[i].name);
	field_push(L, m->headers[i].value);
	return 2;
}

static int l_headers(lua_State *L)
{
	view_self(L);
	lua_settop(L, 1);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, l_next_header, 2);
	return 1;
}

static const struct view_type headers_type = { .number = VIEW_MSG_HEADERS,
					       .name = "msg.headers",
					       .index = api_msg_header,
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
