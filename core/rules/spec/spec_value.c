#include "spec_value.h"

#include "rules/sandbox/field.h"

#define FIELDS_MAX 32

void *spec_box_check(lua_State *L, const char *type)
{
	struct spec_box *box = luaL_checkudata(L, 1, type);

	luaL_argcheck(L, box->object != NULL, 1, "is closed");
	return box->object;
}

struct spec_box *spec_box_push(lua_State *L, const char *type, int owner)
{
	struct spec_box *box = lua_newuserdatauv(L, sizeof(*box), 1);

	*box = (struct spec_box){ .object = NULL };
	luaL_setmetatable(L, type);
	if (owner) {
		lua_pushvalue(L, owner);
		lua_setiuservalue(L, -2, 1);
	}
	return box;
}

struct decision_context *spec_box_context(lua_State *L)
{
	bool is_owned = lua_getiuservalue(L, 1, 1) == LUA_TUSERDATA;
	struct spec_box *box = lua_touserdata(L, is_owned ? -1 : 1);

	lua_pop(L, 1);
	return box->context;
}

void spec_box_type(lua_State *L, const char *type, const luaL_Reg *methods,
		   lua_CFunction close)
{
	luaL_newmetatable(L, type);
	lua_newtable(L);
	luaL_setfuncs(L, methods, 0);
	lua_pushcfunction(L, close);
	lua_setfield(L, -2, "close");
	lua_setfield(L, -2, "__index");
	lua_pushcfunction(L, close);
	lua_setfield(L, -2, "__gc");
	lua_pop(L, 1);
}

int spec_value_answer(lua_State *L, int rc, const struct error *err, int count)
{
	if (rc == TIDE_OK)
		return count;
	lua_pushnil(L);
	lua_pushstring(L, err->text);
	lua_pushstring(L, error_wire_code(rc));
	return 3;
}

void spec_value_args(lua_State *L, int idx, struct args *out)
{
	*out = (struct args){ 0 };
	if (!lua_istable(L, idx))
		return;
	for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 2)) {
		const char *value = luaL_tolstring(L, -1, NULL);
		if (args_add(out, slice_from(lua_tostring(L, -3)), slice_from(value)) ==
		    TIDE_OK)
			continue;
		args_deinit(out);
		luaL_error(L, "'%s' cannot be an option with this value",
			   lua_tostring(L, -3));
	}
}

void spec_value_table(lua_State *L, int idx)
{
	if (lua_isnoneornil(L, idx)) {
		lua_settop(L, idx - 1);
		lua_newtable(L);
	}
	luaL_checktype(L, idx, LUA_TTABLE);
	luaL_checkstack(L, 2 * FIELDS_MAX, NULL);
}

lua_Integer spec_value_integer(lua_State *L, int idx, const char *name,
			       lua_Integer preset)
{
	lua_getfield(L, idx, name);
	lua_Integer n = luaL_optinteger(L, -1, preset);
	lua_pop(L, 1);
	return n;
}

bool spec_value_flag(lua_State *L, int idx, const char *name)
{
	lua_getfield(L, idx, name);
	bool is_set = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return is_set;
}

const char *spec_value_text(lua_State *L, int idx, const char *name, const char *preset)
{
	lua_getfield(L, idx, name);
	return luaL_optstring(L, -1, preset);
}

struct slice spec_value_slice(lua_State *L, int idx, const char *name, const char *preset)
{
	return slice_from(spec_value_text(L, idx, name, preset));
}

static void check_view(lua_State *L, int idx, const struct view_type *view,
		       const struct spec_preset *presets)
{
	const char *names[FIELDS_MAX + 1] = { NULL };
	char owner[32];
	size_t count = 0;

	for (const struct view_field *f = view->fields; f->name; f++)
		names[count++] = f->name;
	for (; presets->name; presets++)
		if (!presets->text[0])
			names[count++] = presets->name;
	snprintf(owner, sizeof(owner), "%s %s",
		 strchr("aeio", view->name[0]) ? "an" : "a", view->name);
	field_check_names(L, idx, owner, names);
}

void spec_value_view(lua_State *L, int idx, const struct view_type *view,
		     const struct spec_preset *presets, void *out)
{
	spec_value_table(L, idx);
	check_view(L, idx, view, presets);
	for (const struct view_field *f = view->fields; f->name; f++) {
		void *member = (char *)out + f->offset;
		const struct spec_preset *preset = presets;

		while (preset->name && strcmp(preset->name, f->name) != 0)
			preset++;
		if (lua_getfield(L, idx, f->name) == LUA_TNIL)
			lua_pushstring(L, preset->text);
		if (f->push == view_push_text)
			*(const char **)member = luaL_optstring(L, -1, NULL);
		else if (f->push == view_push_bool)
			*(bool *)member = lua_toboolean(L, -1);
		else if (f->push == view_push_uint)
			*(uint32_t *)member = (uint32_t)luaL_optinteger(L, -1, 0);
		else if (f->push == view_push_int64)
			*(int64_t *)member = luaL_optinteger(L, -1, 0);
		else if (f->push == view_push_slice || f->push == view_push_given ||
			 f->push == view_push_optional)
			*(struct slice *)member = slice_from(luaL_optstring(L, -1, NULL));
	}
}

void spec_value_set_integer(lua_State *L, const char *name, int64_t value)
{
	lua_pushinteger(L, value);
	lua_setfield(L, -2, name);
}

void spec_value_set_text(lua_State *L, const char *name, const char *text)
{
	lua_pushstring(L, text);
	lua_setfield(L, -2, name);
}

void spec_value_set_headers(lua_State *L, const struct msg *m)
{
	lua_newtable(L);
	for (unsigned i = 0; i < m->header_count; i++) {
		field_push(L, m->headers[i].name);
		field_push(L, m->headers[i].value);
		lua_rawset(L, -3);
	}
	lua_setfield(L, -2, "headers");
}

void spec_value_set_list(lua_State *L, const char *name, const char *const *texts,
			 size_t count)
{
	lua_newtable(L);
	for (size_t i = 0; i < count; i++) {
		lua_pushstring(L, texts[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_setfield(L, -2, name);
}

/* No longer than a name may be, which filters count on; '-' is the empty exchange. */
static struct slice read_word(lua_State *L, int idx, const char *name)
{
	struct slice word = spec_value_slice(L, idx, name, "");

	if (word.len > NAME_LEN_MAX)
		luaL_error(L, "a message's %s has at most %d bytes", name, NAME_LEN_MAX);
	return strcmp(name, "exchange") == 0 && slice_is(word, "-") ? SLICE("") : word;
}

struct msg *spec_value_msg(lua_State *L, int idx)
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
	struct slice dedupe_id = spec_value_slice(L, idx, "dedupe_id", "");
	struct slice user = read_word(L, idx, "user");
	struct msg spec = {
		.id = (uint64_t)spec_value_integer(L, idx, "id", 1),
		.ts_unix_ms = spec_value_integer(L, idx, "ts", 0),
		.due_unix_ms = spec_value_integer(L, idx, "due", 0),
		.expires_unix_ms = spec_value_integer(L, idx, "expires", 0),
		.priority = (uint8_t)spec_value_integer(L, idx, "priority", 0),
		.exchange = read_word(L, idx, "exchange"),
		.key = read_word(L, idx, "key"),
		.headers = headers,
	};
	lua_getfield(L, idx, "payload"); /* any bytes */
	spec.payload = luaL_optlstring(L, -1, "", &spec.payload_len);
	luaL_argcheck(L, dedupe_id.len <= MSG_DEDUPE_ID_MAX, idx,
		      "the dedupe_id is too long");
	spec.dedupe_id = dedupe_id.data;
	spec.dedupe_len = (uint8_t)dedupe_id.len;
	spec.user = user.data;
	spec.user_len = (uint8_t)user.len;
	if (lua_getfield(L, idx, "headers") != LUA_TTABLE)
		return msg_create(&spec);
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
		if (spec.header_count == MSG_HEADERS_ALL)
			luaL_error(L, "a message has at most %d headers",
				   MSG_HEADERS_ALL);
		headers[spec.header_count++] =
			(struct msg_header){ slice_from(lua_tostring(L, -2)),
					     slice_from(lua_tostring(L, -1)) };
	}
	return msg_create(&spec);
}

void spec_value_push_msg(lua_State *L, const struct msg *m)
{
	const struct {
		const char *name;
		struct slice value;
		bool is_there;
	} texts[] = {
		{ "exchange", msg_exchange_word(m), true },
		{ "dedupe_id", msg_dedupe_id(m), m->dedupe_len > 0 },
		{ "user", msg_user(m), m->user_len > 0 },
		{ "key", m->key, true },
		{ "payload", { m->payload, m->payload_len }, true },
	};

	lua_newtable(L);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!texts[i].is_there)
			continue;
		field_push(L, texts[i].value);
		lua_setfield(L, -2, texts[i].name);
	}
	spec_value_set_integer(L, "id", (int64_t)m->id);
	spec_value_set_integer(L, "priority", m->priority);
	spec_value_set_integer(L, "due", m->due_unix_ms);
	spec_value_set_integer(L, "delay",
			       m->due_unix_ms ? m->due_unix_ms - m->ts_unix_ms : 0);
	spec_value_set_integer(L, "expires", m->expires_unix_ms);
	spec_value_set_headers(L, m);
}

void spec_value_push_msgs_take(lua_State *L, struct draft_copies *copies)
{
	lua_newtable(L);
	for (unsigned i = 0; i < copies->count; i++) {
		spec_value_push_msg(L, copies->items[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
		msg_unref(copies->items[i]);
	}
}
