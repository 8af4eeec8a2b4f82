#include "document.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
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

/* After each use. */
static void document_measure(struct documents *d)
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

/* The room of an earlier document is given back. */
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

/* Push what the node is, null as nil; false: it is an array or an object. */
static bool push_scalar(lua_State *L, const struct json_node *n)
{
	switch ((enum json_tape_kind)n->kind) {
	case JSON_TAPE_TEXT:
		lua_pushlstring(L, n->text, n->len);
		return true;
	case JSON_TAPE_INTEGER:
		lua_pushinteger(L, n->integer);
		return true;
	case JSON_TAPE_NUMBER:
		lua_pushnumber(L, n->number);
		return true;
	case JSON_TAPE_TRUE:
	case JSON_TAPE_FALSE:
		lua_pushboolean(L, n->kind == JSON_TAPE_TRUE);
		return true;
	case JSON_TAPE_NULL:
	case JSON_TAPE_UNREADABLE:
	case JSON_TAPE_CURSOR:
		lua_pushnil(L);
		return true;
	case JSON_TAPE_ARRAY:
	case JSON_TAPE_OBJECT:
		break;
	}
	return false;
}

static void push_node(lua_State *L, const struct document *item, uint32_t node)
{
	lua_Integer place;

	if (push_scalar(L, &item->tape.nodes[node]))
		return;
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

/* Is the value at `idx` a view? Then where it looks. Raises for an expired one, and for
 * one of a payload that is not read to its end. */
static bool document_find(lua_State *L, int idx, struct json_tape **tape, uint32_t *node)
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

/* Registry: the metatable of marked arrays. As a light userdata: a null. */
static const char array_key;
static const char null_key;

/* A value being written. The place of the part under way is for errors. */
struct writing {
	lua_State *L;
	struct json out;
	struct documents *documents;
	unsigned depth;
	struct writing_step {
		struct slice name; /* empty: `number` instead */
		lua_Integer number;
	} path[DOCUMENT_DEPTH_MAX];
};

static void push_null(lua_State *L)
{
	lua_pushlightuserdata(L, (void *)&null_key);
}

static bool is_marked(lua_State *L, int idx)
{
	if (!lua_getmetatable(L, idx))
		return false;
	lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
	bool is = lua_rawequal(L, -1, -2);
	lua_pop(L, 2);
	return is;
}

/* The table on the top is an array, however empty. False: it has another metatable. */
static bool mark_array(lua_State *L)
{
	if (lua_getmetatable(L, -1)) {
		lua_pop(L, 1);
		return is_marked(L, -1);
	}
	lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
	lua_setmetatable(L, -2);
	return true;
}

static void push_copy(lua_State *L, const struct json_tape *t, uint32_t node,
		      bool has_null);

static void push_object_copy(lua_State *L, const struct json_tape *t, uint32_t node,
			     bool has_null)
{
	uint32_t end = t->nodes[node].end;

	lua_createtable(L, 0, (int)t->nodes[node].len);
	for (uint32_t i = node + 1; i < end; i = json_tape_behind(t, i + 1)) {
		if (t->nodes[i + 1].kind == JSON_TAPE_NULL && !has_null)
			continue;
		lua_pushlstring(L, t->nodes[i].text, t->nodes[i].len);
		push_copy(L, t, i + 1, has_null);
		lua_rawset(L, -3);
	}
}

static void push_array_copy(lua_State *L, const struct json_tape *t, uint32_t node,
			    bool has_null)
{
	uint32_t end = t->nodes[node].end;
	lua_Integer n = 0;

	lua_createtable(L, (int)t->nodes[node].len, 0);
	for (uint32_t i = node + 2; i < end; i = json_tape_behind(t, i)) {
		push_copy(L, t, i, has_null);
		lua_rawseti(L, -2, ++n);
	}
	mark_array(L);
}

static void push_copy(lua_State *L, const struct json_tape *t, uint32_t node,
		      bool has_null)
{
	script_check(L);
	if (push_scalar(L, &t->nodes[node])) {
		if (has_null && lua_isnil(L, -1)) {
			lua_pop(L, 1);
			push_null(L);
		}
		return;
	}
	luaL_checkstack(L, 6, NULL);
	if (t->nodes[node].kind == JSON_TAPE_ARRAY)
		push_array_copy(L, t, node, has_null);
	else
		push_object_copy(L, t, node, has_null);
}

/* Do the options at `idx`, { null = true }, ask for nulls? */
static bool wants_null(lua_State *L, int idx)
{
	static const char *const names[] = { "null", NULL };

	if (lua_isnoneornil(L, idx))
		return false;
	luaL_checktype(L, idx, LUA_TTABLE);
	read_only_see_through(L, idx);
	field_check_names(L, idx, "tide.json.decode", names);
	return field_boolean(L, idx, "null", false);
}

/* decode (text [, { null = true }]) -> value, or nil and a message. A null becomes nil,
 * or tide.json.null. */
static int l_decode(lua_State *L)
{
	struct documents *d = script_state_of(L)->documents;
	struct error err;
	size_t len;
	const char *text = luaL_checklstring(L, 1, &len);

	script_check(L);
	luaL_argcheck(L, len <= DOCUMENT_BYTES_MAX, 1, "the text has more than 1 MiB");
	lua_settop(L, 2);
	bool has_null = wants_null(L, 2);
	int rc = json_tape_read(&d->tape, (struct slice){ text, len }, DOCUMENT_DEPTH_MAX,
				&err);
	document_measure(d);
	if (rc != TIDE_OK) {
		/* A message repeats nothing of the text, which may be a token. */
		lua_pushnil(L);
		lua_pushstring(L, err.text);
		return 2;
	}
	push_copy(L, &d->tape, 0, has_null);
	return 1;
}

/* "items.2.price is a function, and …" */
static int refuse(const struct writing *w, const char *what)
{
	lua_State *L = w->L;
	luaL_Buffer b;

	luaL_checkstack(L, LUA_MINSTACK, NULL);
	luaL_buffinit(L, &b);
	if (w->depth == 0)
		luaL_addstring(&b, "the value");
	for (unsigned i = 0; i < w->depth; i++) {
		const struct writing_step *step = &w->path[i];

		if (i > 0)
			luaL_addchar(&b, '.');
		if (step->name.data) {
			luaL_addlstring(
				&b, step->name.data,
				utf8_whole(step->name.data,
					   step->name.len < 64 ? step->name.len : 64));
		} else {
			lua_pushinteger(L, step->number);
			luaL_addvalue(&b);
		}
	}
	luaL_pushresult(&b);
	return luaL_error(L, "%s %s", lua_tostring(L, -1), what);
}

static int refuse_type(const struct writing *w, int idx)
{
	lua_pushfstring(w->L, "is a %s, which JSON cannot hold",
			luaL_typename(w->L, idx));
	return refuse(w, lua_tostring(w->L, -1));
}

static void check_room(const struct writing *w)
{
	script_check(w->L);
	if (buf_len(&w->documents->out) > DOCUMENT_BYTES_MAX)
		luaL_error(w->L, "the JSON has more than %d KiB",
			   (int)(DOCUMENT_BYTES_MAX >> 10));
}

static void check_text(const struct writing *w, struct slice s)
{
	if (s.len > DOCUMENT_BYTES_MAX)
		refuse(w, "is a text of more than 1 MiB");
	if (!slice_is_utf8(s))
		refuse(w, "is a text that is not UTF-8");
}

static void write_boolean(struct writing *w, bool b)
{
	json_written(&w->out, b ? SLICE("true") : SLICE("false"));
}

static void write_number(struct writing *w, int idx)
{
	double n = lua_tonumber(w->L, idx);

	if (lua_isinteger(w->L, idx))
		json_int(&w->out, lua_tointeger(w->L, idx));
	else if (isfinite(n))
		json_number(&w->out, n);
	else
		refuse(w, isnan(n) ? "is not a number (NaN)" : "is an infinite number");
}

static void add_name(struct documents *d, struct slice name, uint32_t node)
{
	MEM_GROW(d->names, d->name_count, d->name_cap, 64);
	d->names[d->name_count++] = (struct document_name){ name, node };
}

static int compare_names(const void *a, const void *b)
{
	const struct document_name *x = a, *y = b;

	return slice_compare(x->name, y->name);
}

static void sort_names(struct documents *d, size_t first)
{
	if (d->name_count > first)
		qsort(d->names + first, d->name_count - first, sizeof(*d->names),
		      compare_names);
}

static void write_value(struct writing *w, int idx);
static void write_node(struct writing *w, const struct json_tape *t, uint32_t node);

static void enter(struct writing *w, bool is_array)
{
	if (w->depth == DOCUMENT_DEPTH_MAX)
		luaL_error(w->L,
			   "the value is nested deeper than %d levels, or in itself",
			   DOCUMENT_DEPTH_MAX);
	luaL_checkstack(w->L, 8, NULL);
	if (is_array)
		json_array_begin(&w->out);
	else
		json_object_begin(&w->out);
	w->depth++;
}

static void leave(struct writing *w, bool is_array)
{
	w->depth--;
	if (is_array)
		json_array_end(&w->out);
	else
		json_object_end(&w->out);
}

static void step_to_name(struct writing *w, struct slice name)
{
	w->path[w->depth - 1] = (struct writing_step){ .name = name };
	check_text(w, name);
	json_key_slice(&w->out, name);
}

/* The names of the table at `idx` that are texts are added. Returns the number of its
 * other keys; those are the numbers 1 to n. */
static lua_Integer read_keys(struct writing *w, int idx)
{
	lua_State *L = w->L;
	size_t first = w->documents->name_count;
	lua_Integer count = 0, highest = 0;

	for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 1)) {
		lua_Integer n = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;

		script_check(L);
		if (lua_type(L, -2) == LUA_TSTRING) {
			add_name(w->documents, field_slice(L, -2), 0);
			continue;
		}
		if (n < 1) {
			lua_pushfstring(L,
					"is a table with the key %s; keys are texts, "
					"or the numbers from 1 on",
					safe_lib_tolstring(L, -2, NULL));
			refuse(w, lua_tostring(L, -1));
		}
		highest = n > highest ? n : highest;
		count++;
	}
	if (count > 0 && w->documents->name_count > first)
		refuse(w, "is a table with both texts and numbers as keys");
	if (highest != count)
		refuse(w, "is an array with gaps; tide.json.null fills one");
	return count;
}

static void write_array(struct writing *w, int idx, lua_Integer count)
{
	enter(w, true);
	for (lua_Integer n = 1; n <= count; n++) {
		w->path[w->depth - 1] = (struct writing_step){ .number = n };
		lua_rawgeti(w->L, idx, n);
		write_value(w, lua_gettop(w->L));
		lua_pop(w->L, 1);
	}
	leave(w, true);
}

static void write_object(struct writing *w, int idx, size_t first)
{
	struct documents *d = w->documents;
	size_t end = d->name_count;

	sort_names(d, first);
	enter(w, false);
	for (size_t i = first; i < end; i++) {
		struct slice name = d->names[i].name; /* the table has it */

		step_to_name(w, name);
		field_push(w->L, name);
		lua_rawget(w->L, idx);
		write_value(w, lua_gettop(w->L));
		lua_pop(w->L, 1);
	}
	leave(w, false);
}

static void write_table(struct writing *w, int idx)
{
	struct documents *d = w->documents;
	size_t first = d->name_count;
	bool is_array = is_marked(w->L, idx);

	lua_Integer count = read_keys(w, idx);
	if (is_array && d->name_count > first)
		refuse(w, "is an array with texts as keys");
	if (is_array || count > 0)
		write_array(w, idx, count);
	else
		write_object(w, idx, first);
	d->name_count = first;
}

/* A table or view at `idx`. */
static void write_container(struct writing *w, int idx)
{
	struct json_tape *tape;
	uint32_t node;

	luaL_checkstack(w->L, 8, NULL);
	if (document_find(w->L, idx, &tape, &node)) {
		write_node(w, tape, node);
		return;
	}
	lua_pushvalue(w->L, idx);
	safe_lib_unfold(w->L, -1);
	write_table(w, lua_gettop(w->L));
	lua_pop(w->L, 1);
}

static void write_value(struct writing *w, int idx)
{
	lua_State *L = w->L;

	check_room(w);
	switch (lua_type(L, idx)) {
	case LUA_TBOOLEAN:
		write_boolean(w, lua_toboolean(L, idx));
		break;
	case LUA_TNUMBER:
		write_number(w, idx);
		break;
	case LUA_TSTRING:
		check_text(w, field_slice(L, idx));
		json_slice(&w->out, field_slice(L, idx));
		break;
	case LUA_TTABLE:
		write_container(w, idx);
		break;
	case LUA_TLIGHTUSERDATA:
		if (lua_touserdata(L, idx) != &null_key)
			refuse_type(w, idx);
		json_nil(&w->out);
		break;
	default:
		refuse_type(w, idx);
	}
}

static void write_object_node(struct writing *w, const struct json_tape *t, uint32_t node)
{
	struct documents *d = w->documents;
	size_t first = d->name_count;

	for (uint32_t i = node + 1; i < t->nodes[node].end;
	     i = json_tape_behind(t, i + 1))
		add_name(d, json_tape_text(&t->nodes[i]), i);
	sort_names(d, first);
	enter(w, false);
	for (size_t i = first, end = d->name_count; i < end; i++) {
		step_to_name(w, d->names[i].name);
		write_node(w, t, d->names[i].node + 1);
	}
	leave(w, false);
	d->name_count = first;
}

static void write_array_node(struct writing *w, const struct json_tape *t, uint32_t node)
{
	lua_Integer n = 0;

	enter(w, true);
	for (uint32_t i = node + 2; i < t->nodes[node].end; i = json_tape_behind(t, i)) {
		w->path[w->depth - 1] = (struct writing_step){ .number = ++n };
		write_node(w, t, i);
	}
	leave(w, true);
}

static void write_node(struct writing *w, const struct json_tape *t, uint32_t node)
{
	const struct json_node *n = &t->nodes[node];

	check_room(w);
	switch ((enum json_tape_kind)n->kind) {
	case JSON_TAPE_OBJECT:
		write_object_node(w, t, node);
		break;
	case JSON_TAPE_ARRAY:
		write_array_node(w, t, node);
		break;
	case JSON_TAPE_TEXT:
		json_slice(&w->out, json_tape_text(n));
		break;
	case JSON_TAPE_INTEGER:
		json_int(&w->out, n->integer);
		break;
	case JSON_TAPE_NUMBER:
		json_number(&w->out, n->number);
		break;
	case JSON_TAPE_TRUE:
	case JSON_TAPE_FALSE:
		write_boolean(w, n->kind == JSON_TAPE_TRUE);
		break;
	case JSON_TAPE_UNREADABLE:
		refuse(w, "is a part of msg.json that cannot be read; msg.json_error "
			  "says why");
		break;
	case JSON_TAPE_NULL:
	case JSON_TAPE_CURSOR:
		json_nil(&w->out);
		break;
	}
}

struct slice document_json_text(lua_State *L, int idx)
{
	struct documents *d = script_state_of(L)->documents;
	struct writing w = { .L = L, .out = { .out = &d->out }, .documents = d };

	d->name_count = 0;
	buf_clear(&d->out);
	write_value(&w, lua_absindex(L, idx));
	document_measure(d);
	check_room(&w);
	return buf_slice(&d->out);
}

/* encode (value) -> text */
static int l_encode(lua_State *L)
{
	luaL_checkany(L, 1);
	script_check(L);
	field_push(L, document_json_text(L, 1));
	return 1;
}

/* array (table) -> the table, which is written as an array even when it is empty */
static int l_array(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	if (!mark_array(L))
		return luaL_error(L, "this table has a metatable already");
	return 1;
}

void document_add_json(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "decode", l_decode },
		{ "encode", l_encode },
		{ "array", l_array },
		{ NULL, NULL },
	};

	lua_createtable(L, 0, 1);
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_rawsetp(L, LUA_REGISTRYINDEX, &array_key);
	lua_newtable(L);
	luaL_setfuncs(L, functions, 0);
	push_null(L);
	lua_setfield(L, -2, "null");
	read_only_protect(L);
	lua_setfield(L, -2, "json");
}
