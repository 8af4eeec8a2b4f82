#include "document.h"

#include <lauxlib.h>

#include "base/mem.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/safe_lib.h"
#include "rules/sandbox/script.h"

/* Registry: the metatable of views. In a view: an integer that says where it looks. */
static const char metatable_key;
static const char place_key;

/* A place, from its low bits up: the node, the document, the serial of the call. */
#define NODE_BITS 21
#define ITEM_BITS 3
_Static_assert(DOCUMENTS_MAX <= 1 << ITEM_BITS, "a view has so many bits for it");
/* A node takes a byte of the text or more, and an array two for its two brackets. */
_Static_assert(DOCUMENT_BYTES_MAX < 1 << NODE_BITS, "a view has so many bits for it");

static struct documents *documents_of(lua_State *L)
{
	return script_state_of(L)->documents;
}

static void clear(struct document *d)
{
	buf_deinit(&d->source);
	json_tape_deinit(&d->tape);
	*d = (struct document){ 0 };
}

static void clear_scratch(struct documents *d)
{
	json_tape_deinit(&d->tape);
	buf_deinit(&d->out);
	mem_free(d->names);
	d->names = NULL;
	d->name_count = d->name_cap = 0;
}

void document_deinit(struct documents *d)
{
	for (int i = 0; i < DOCUMENTS_MAX; i++)
		clear(&d->items[i]);
	clear_scratch(d);
}

static size_t tape_bytes(const struct json_tape *t)
{
	return t->cap * sizeof(*t->nodes) + t->texts.cap +
	       t->name_cap * sizeof(*t->names);
}

void document_measure(struct documents *d)
{
	size_t bytes =
		tape_bytes(&d->tape) + d->out.cap + d->name_cap * sizeof(*d->names);

	for (int i = 0; i < DOCUMENTS_MAX; i++)
		bytes += d->items[i].source.cap + tape_bytes(&d->items[i].tape);
	d->held_bytes = bytes;
}

void document_trim(struct documents *d)
{
	for (int i = 0; i < DOCUMENTS_MAX; i++)
		if (d->items[i].order != d->order)
			clear(&d->items[i]);
	clear_scratch(d);
	document_measure(d);
}

/* ---- documents */

static struct document *find_same(struct documents *d, struct slice text, bool is_front)
{
	for (int i = 0; i < DOCUMENTS_MAX; i++)
		if (d->items[i].order && d->items[i].is_front == is_front &&
		    slice_is_equal(buf_slice(&d->items[i].source), text))
			return &d->items[i];
	return NULL;
}

/* The one that was used longest ago. Those of the call under way have views. */
static struct document *find_oldest(lua_State *L, struct documents *d)
{
	struct document *oldest = NULL;

	for (int i = 0; i < DOCUMENTS_MAX; i++) {
		struct document *item = &d->items[i];

		if (item->used != script_state_of(L)->serial &&
		    (!oldest || item->order < oldest->order))
			oldest = item;
	}
	if (!oldest)
		luaL_error(L, "a call reads at most %d different payloads as JSON",
			   DOCUMENTS_MAX);
	return oldest;
}

/* What an earlier document has needed is not kept for ever. */
static void make_room(lua_State *L, struct documents *d, struct document *item,
		      size_t len)
{
	if (item->source.cap > DOCUMENT_SMALL_BYTES)
		clear(item);
	if (len <= DOCUMENT_SMALL_BYTES)
		return;
	for (int i = 0; i < DOCUMENTS_MAX; i++)
		if (d->items[i].used != script_state_of(L)->serial)
			clear(&d->items[i]);
}

static void read_front(struct document *item)
{
	json_tape_read_front(&item->tape, buf_slice(&item->source), DOCUMENT_DEPTH_MAX);
	error_set(&item->wrong, TIDE_ELIMIT, "the payload has more than %d KiB",
		  (int)(DOCUMENT_BYTES_MAX >> 10));
}

static struct document *read_new(lua_State *L, struct documents *d, struct slice text,
				 bool is_front)
{
	struct document *item = find_oldest(L, d);

	script_check(L);
	make_room(L, d, item, text.len);
	item->order = 0;
	buf_clear(&item->source);
	if (buf_try_reserve(&item->source, text.len + 1) != TIDE_OK)
		luaL_error(L, "out of memory for %I bytes", (lua_Integer)text.len);
	buf_append_slice(&item->source, text);
	buf_cstr(&item->source);
	item->is_front = is_front;
	item->wrong.code = TIDE_OK;
	if (is_front)
		read_front(item);
	else
		(void)!json_tape_read(&item->tape, buf_slice(&item->source),
				      DOCUMENT_DEPTH_MAX, &item->wrong);
	document_measure(d);
	return item;
}

static struct document *look_into(lua_State *L, struct slice text)
{
	struct documents *d = documents_of(L);
	bool is_front = text.len > DOCUMENT_BYTES_MAX;

	if (is_front)
		text.len = DOCUMENT_BYTES_MAX;
	struct document *item = find_same(d, text, is_front);
	if (!item)
		item = read_new(L, d, text, is_front);
	item->order = ++d->order;
	item->used = script_state_of(L)->serial;
	return item;
}

/* ---- views */

static void push_node(lua_State *L, const struct document *item, uint32_t node)
{
	const struct json_node *n = &item->tape.nodes[node];
	lua_Integer place;

	switch ((enum json_tape_kind)n->kind) {
	case JSON_TAPE_TEXT:
		lua_pushlstring(L, n->text, n->len);
		return;
	case JSON_TAPE_INTEGER:
		lua_pushinteger(L, n->integer);
		return;
	case JSON_TAPE_NUMBER:
		lua_pushnumber(L, n->number);
		return;
	case JSON_TAPE_TRUE:
	case JSON_TAPE_FALSE:
		lua_pushboolean(L, n->kind == JSON_TAPE_TRUE);
		return;
	case JSON_TAPE_NULL:
	case JSON_TAPE_UNREADABLE:
	case JSON_TAPE_CURSOR:
		lua_pushnil(L);
		return;
	case JSON_TAPE_ARRAY:
	case JSON_TAPE_OBJECT:
		break;
	}
	place = (lua_Integer)(script_state_of(L)->serial << (NODE_BITS + ITEM_BITS) |
			      (uint64_t)(item - documents_of(L)->items) << NODE_BITS |
			      node);
	lua_createtable(L, 0, 1);
	lua_pushinteger(L, place);
	lua_rawsetp(L, -2, &place_key);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &metatable_key);
	lua_setmetatable(L, -2);
}

struct view_place {
	struct document *item;
	uint32_t node;
	bool is_array;
};

/* Of the value at `idx`; false: it is no view. */
static bool find_place(lua_State *L, int idx, struct view_place *out)
{
	struct documents *d = documents_of(L);
	uint64_t serial = script_state_of(L)->serial;

	if (!lua_istable(L, idx))
		return false;
	bool is_view = lua_rawgetp(L, idx, &place_key) == LUA_TNUMBER;
	uint64_t place = (uint64_t)lua_tointeger(L, -1);
	lua_pop(L, 1);
	if (!is_view)
		return false;
	if (place >> (NODE_BITS + ITEM_BITS) !=
	    serial << (NODE_BITS + ITEM_BITS) >> (NODE_BITS + ITEM_BITS))
		luaL_error(L, "this part of 'msg.json' has expired: it was good for one "
			      "call only");
	out->item = &d->items[place >> NODE_BITS & ((1u << ITEM_BITS) - 1)];
	out->node = (uint32_t)(place & ((1u << NODE_BITS) - 1));
	out->is_array = out->item->tape.nodes[out->node].kind == JSON_TAPE_ARRAY;
	return true;
}

bool document_find(lua_State *L, int idx, struct json_tape **tape, uint32_t *node)
{
	struct view_place v;

	if (!find_place(L, idx, &v))
		return false;
	if (v.item->is_front)
		luaL_error(L, "%s: what is read of it as 'msg.json' cannot be written",
			   v.item->wrong.text);
	*tape = &v.item->tape;
	*node = v.node;
	return true;
}

static struct view_place check_view(lua_State *L)
{
	struct view_place v;

	if (!find_place(L, 1, &v))
		luaL_typeerror(L, 1, "part of msg.json");
	return v;
}

/* The node of the key at 2; 0: there is none. */
static uint32_t find_key(lua_State *L, const struct view_place *v)
{
	int is_integer;
	lua_Integer n;

	if (!v->is_array)
		return lua_type(L, 2) == LUA_TSTRING
			       ? json_tape_member(&v->item->tape, v->node,
						  field_slice(L, 2))
			       : 0;
	n = lua_tointegerx(L, 2, &is_integer);
	return is_integer && n > 0 && lua_type(L, 2) == LUA_TNUMBER
		       ? json_tape_element(&v->item->tape, v->node, (uint64_t)n)
		       : 0;
}

static int l_index(lua_State *L)
{
	struct view_place v = check_view(L);
	uint32_t node = find_key(L, &v);

	if (node)
		push_node(L, v.item, node);
	else
		lua_pushnil(L);
	return 1;
}

static int l_newindex(lua_State *L)
{
	return luaL_error(L,
			  "'msg.json' is read-only at all depths; for a copy to change: "
			  "tide.json.decode(msg.payload)");
}

static int l_len(lua_State *L)
{
	struct view_place v = check_view(L);

	lua_pushinteger(L, v.is_array ? v.item->tape.nodes[v.node].len : 0);
	return 1;
}

/* Push the first key from child `at` on whose value is not nil, and its value; false:
 * there is none. `n` is the number of the child before it; both follow. */
static bool push_pair(lua_State *L, const struct view_place *v, uint32_t *at,
		      lua_Integer *n)
{
	const struct json_tape *t = &v->item->tape;

	while (*at < t->nodes[v->node].end) {
		uint32_t name = *at, value = v->is_array ? name : name + 1;

		*at = json_tape_behind(t, value);
		++*n;
		script_check(L);
		if (t->nodes[value].kind == JSON_TAPE_NULL ||
		    t->nodes[value].kind == JSON_TAPE_UNREADABLE)
			continue;
		if (v->is_array)
			lua_pushinteger(L, *n);
		else
			lua_pushlstring(L, t->nodes[name].text, t->nodes[name].len);
		push_node(L, v->item, value);
		return true;
	}
	return false;
}

/* next (view, key) */
static int l_next(lua_State *L)
{
	lua_settop(L, 2);
	struct view_place v = check_view(L);
	uint32_t at = json_tape_first(&v.item->tape, v.node);
	lua_Integer n = 0;

	if (!lua_isnil(L, 2)) {
		uint32_t node = find_key(L, &v);
		if (!node)
			return luaL_error(L, "invalid key to 'next'");
		n = v.is_array ? lua_tointeger(L, 2) : 0;
		at = json_tape_behind(&v.item->tape, node);
	}
	if (push_pair(L, &v, &at, &n))
		return 2;
	lua_pushnil(L);
	return 1;
}

/* Upvalues: the view, the child that is next, the number of the one before it. */
static int l_next_pair(lua_State *L)
{
	lua_settop(L, 0);
	lua_pushvalue(L, lua_upvalueindex(1));
	struct view_place v = check_view(L);
	uint32_t at = (uint32_t)lua_tointeger(L, lua_upvalueindex(2));
	lua_Integer n = lua_tointeger(L, lua_upvalueindex(3));
	bool is_there = push_pair(L, &v, &at, &n);

	lua_pushinteger(L, at);
	lua_replace(L, lua_upvalueindex(2));
	lua_pushinteger(L, n);
	lua_replace(L, lua_upvalueindex(3));
	return is_there ? 2 : 0;
}

static int l_pairs(lua_State *L)
{
	struct view_place v = check_view(L);

	lua_settop(L, 1);
	lua_pushinteger(L, json_tape_first(&v.item->tape, v.node));
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, l_next_pair, 3);
	return 1;
}

void document_open(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{ "__index", l_index },
		{ "__newindex", l_newindex },
		{ "__len", l_len },
		{ "__pairs", l_pairs },
		/* For safe_lib.c. */
		{ "next", l_next },
		{ "rawget", l_index },
		{ "rawlen", l_len },
		{ "rawset", l_newindex },
		{ NULL, NULL },
	};

	luaL_newlib(L, methods);
	lua_pushboolean(L, 1);
	lua_rawsetp(L, -2, &safe_lib_stand_in);
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_rawsetp(L, LUA_REGISTRYINDEX, &metatable_key);
}

void document_push(lua_State *L, struct slice text, struct error *unread)
{
	const struct document *item = look_into(L, text);

	if (unread && item->wrong.code && unread->code == TIDE_OK)
		*unread = item->wrong;
	if (item->tape.count > 0)
		push_node(L, item, 0);
	else
		lua_pushnil(L);
}

void document_push_error(lua_State *L, struct slice text)
{
	const struct document *item = look_into(L, text);

	lua_pushstring(L, item->wrong.code ? item->wrong.text : NULL);
}
