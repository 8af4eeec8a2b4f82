#include "spec_msg.h"

#include <lauxlib.h>

#include "rules/sandbox/field.h"

lua_Integer spec_msg_integer(lua_State *L, int idx, const char *name, lua_Integer preset)
{
	lua_getfield(L, idx, name);
	lua_Integer n = luaL_optinteger(L, -1, preset);
	lua_pop(L, 1);
	return n;
}

bool spec_msg_has(lua_State *L, int idx, const char *name)
{
	bool is_there = lua_getfield(L, idx, name) != LUA_TNIL;

	lua_pop(L, 1);
	return is_there;
}

const char *spec_msg_text(lua_State *L, int idx, const char *name, const char *preset)
{
	lua_getfield(L, idx, name);
	return luaL_optstring(L, -1, preset);
}

/* No longer than a name may be, which filters count on. The text stays. */
static struct slice word_field(lua_State *L, int idx, const char *name)
{
	struct slice word = slice_from(spec_msg_text(L, idx, name, ""));

	if (word.len > NAME_LEN_MAX)
		luaL_error(L, "a message's %s has at most %d bytes", name, NAME_LEN_MAX);
	return word;
}

static struct slice exchange_field(lua_State *L, int idx)
{
	struct slice name = word_field(L, idx, "exchange");

	return slice_is(name, "-") ? SLICE("") : name;
}

/* Any bytes. They stay. */
static struct slice payload_field(lua_State *L, int idx)
{
	struct slice payload;

	lua_getfield(L, idx, "payload");
	payload.data = luaL_optlstring(L, -1, "", &payload.len);
	return payload;
}

struct msg *spec_msg_read(lua_State *L, int idx)
{
	/* With those of a message that a function gave. */
	static const char *const names[] = {
		"exchange", "key",     "payload",   "headers", "priority",
		"user",     "vhost",   "dedupe_id", "id",      "ts",
		"due",      "expires", "attempt",   "offset",  "partition",
		"delay",    "copies",  "passed",    "hops",    NULL
	};
	struct msg_header headers[MSG_HEADERS_ALL];

	luaL_checktype(L, idx, LUA_TTABLE);
	field_check_names(L, idx, "a message", names);
	struct slice dedupe_id = slice_from(spec_msg_text(L, idx, "dedupe_id", ""));
	struct slice payload = payload_field(L, idx);
	struct slice user = word_field(L, idx, "user");
	struct msg spec = {
		.id = (uint64_t)spec_msg_integer(L, idx, "id", 1),
		.ts_unix_ms = spec_msg_integer(L, idx, "ts", 0),
		.due_unix_ms = spec_msg_integer(L, idx, "due", 0),
		.expires_unix_ms = spec_msg_integer(L, idx, "expires", 0),
		.priority = (uint8_t)spec_msg_integer(L, idx, "priority", 0),
		.exchange = exchange_field(L, idx),
		.key = word_field(L, idx, "key"),
		.headers = headers,
		.payload = payload.data,
		.payload_len = payload.len,
	};
	luaL_argcheck(L, dedupe_id.len <= MSG_DEDUPE_ID_MAX, idx,
		      "the dedupe_id is too long");
	spec.dedupe_id = dedupe_id.data;
	spec.dedupe_len = (uint8_t)dedupe_id.len;
	spec.user = user.data;
	spec.user_len = (uint8_t)user.len;
	if (lua_getfield(L, idx, "headers") == LUA_TTABLE) {
		for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
			if (spec.header_count == MSG_HEADERS_ALL)
				luaL_error(L, "a message has at most %d headers",
					   MSG_HEADERS_ALL);
			headers[spec.header_count++] =
				(struct msg_header){ slice_from(lua_tostring(L, -2)),
						     slice_from(lua_tostring(L, -1)) };
		}
	}
	return msg_create(&spec);
}

static void set_slice(lua_State *L, const char *name, struct slice value)
{
	field_push(L, value);
	lua_setfield(L, -2, name);
}

void spec_msg_set_integer(lua_State *L, const char *name, int64_t value)
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
	spec_msg_set_integer(L, "id", (int64_t)m->id);
	spec_msg_set_integer(L, "priority", m->priority);
	spec_msg_set_integer(L, "due", m->due_unix_ms);
	spec_msg_set_integer(L, "delay",
			     m->due_unix_ms ? m->due_unix_ms - m->ts_unix_ms : 0);
	spec_msg_set_integer(L, "expires", m->expires_unix_ms);
	set_headers(L, m->headers, m->header_count);
}
