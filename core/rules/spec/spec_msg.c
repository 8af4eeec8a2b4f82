#include "spec_msg.h"

#include <lauxlib.h>

#include "rules/sandbox/field.h"
#include "spec_field.h"

/* No longer than a name may be, which filters count on. The text stays. */
static struct slice word_field(lua_State *L, int idx, const char *name)
{
	struct slice word = spec_field_slice(L, idx, name, "");

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
	struct slice dedupe_id = spec_field_slice(L, idx, "dedupe_id", "");
	struct slice payload = payload_field(L, idx);
	struct slice user = word_field(L, idx, "user");
	struct msg spec = {
		.id = (uint64_t)spec_field_integer(L, idx, "id", 1),
		.ts_unix_ms = spec_field_integer(L, idx, "ts", 0),
		.due_unix_ms = spec_field_integer(L, idx, "due", 0),
		.expires_unix_ms = spec_field_integer(L, idx, "expires", 0),
		.priority = (uint8_t)spec_field_integer(L, idx, "priority", 0),
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

void spec_msg_push(lua_State *L, const struct msg *m)
{
	lua_newtable(L);
	spec_field_set_slice(L, "exchange", msg_exchange_word(m));
	if (m->dedupe_len)
		spec_field_set_slice(L, "dedupe_id", msg_dedupe_id(m));
	if (m->user_len)
		spec_field_set_slice(L, "user", msg_user(m));
	spec_field_set_slice(L, "key", m->key);
	spec_field_set_slice(L, "payload", (struct slice){ m->payload, m->payload_len });
	spec_field_set_integer(L, "id", (int64_t)m->id);
	spec_field_set_integer(L, "priority", m->priority);
	spec_field_set_integer(L, "due", m->due_unix_ms);
	spec_field_set_integer(L, "delay",
			       m->due_unix_ms ? m->due_unix_ms - m->ts_unix_ms : 0);
	spec_field_set_integer(L, "expires", m->expires_unix_ms);
	spec_field_set_headers(L, m);
}

void spec_msg_set_list(lua_State *L, const char *name, struct msg *const *msgs,
		       unsigned count)
{
	lua_newtable(L);
	for (unsigned i = 0; i < count; i++) {
		spec_msg_push(L, msgs[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_setfield(L, -2, name);
}
