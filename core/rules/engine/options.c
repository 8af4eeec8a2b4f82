#include "options.h"

#include <lauxlib.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/mem.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"
#include "rules/sandbox/safe_lib.h"
#include "rules/sandbox/script.h"

#define WILDCARD "*"

static void free_text(const char *text)
{
	mem_free((void *)(uintptr_t)text);
}

void options_init(struct options *o)
{
	*o = (struct options){ .presets = LUA_NOREF };
}

void options_deinit(struct options *o)
{
	for (size_t i = 0; i < o->count; i++) {
		struct option *option = &o->items[i];
		free_text(option->row.name);
		free_text(option->row.help);
		free_text(option->row.fallback);
		args_deinit(&option->choices);
	}
	mem_free(o->items);
	options_init(o);
}

/* Of a list each element must be a choice. */
static bool is_choice(const struct option *o, const char *text)
{
	struct buf element = { 0 };
	bool is_ok = true;

	if (o->choices.count == 0)
		return true;
	if (o->row.type != OPTION_LIST)
		return args_get(&o->choices, text) != NULL;
	while (is_ok && option_next_element(&text, &element))
		is_ok = args_get(&o->choices, buf_cstr(&element)) != NULL;
	buf_deinit(&element);
	return is_ok;
}

static bool is_allowed(const struct option *o, const char *text)
{
	return is_choice(o, text) && option_is_allowed(&o->row, text);
}

/* "a number, at least 1", in `out`. */
static void describe_option(const struct option *o, struct buf *out)
{
	option_describe(&o->row, out);
	for (size_t i = 0; i < o->choices.count; i++)
		buf_printf(out, "%s %s", i == 0 ? ", one of" : "",
			   o->choices.items[i].name);
}

/* Raise: "option '<name>': ...". */
static void refuse(lua_State *L, const char *name, const char *format, ...)
{
	va_list args;

	lua_pushfstring(L, "option '%s': ", name);
	va_start(args, format);
	lua_pushvfstring(L, format, args);
	va_end(args);
	lua_concat(L, 2);
	lua_error(L);
}

char *options_take_doc(lua_State *L, const char *name)
{
	char whose[OPTION_NAME_MAX + 16] = "";
	size_t len;

	if (name)
		snprintf(whose, sizeof(whose), "option '%s': ", name);
	if (lua_type(L, -1) != LUA_TSTRING)
		luaL_error(L, "%s'doc' must be a text, not a %s", whose,
			   luaL_typename(L, -1));
	const char *text = lua_tolstring(L, -1, &len);
	if (len > OPTION_TEXT_MAX)
		luaL_error(L, "%s'doc' has more than %d bytes", whose, OPTION_TEXT_MAX);
	return mem_strdup(text);
}

static void check_preset_len(lua_State *L, size_t len, const char *name)
{
	if (len > OPTION_TEXT_MAX)
		refuse(L, name, "the value has more than %d bytes", OPTION_TEXT_MAX);
}

/* Bytes behind a zero byte would be lost. */
static const char *check_preset(lua_State *L, const char *text, size_t len,
				const char *name)
{
	check_preset_len(L, len, name);
	if (memchr(text, '\0', len))
		refuse(L, name, "the value has a zero byte");
	return text;
}

static void check_is_list(lua_State *L, int idx, const char *name)
{
	for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 1))
		if (lua_type(L, -2) != LUA_TNUMBER)
			refuse(L, name,
			       "the value is a table with the name '%s', but it takes a "
			       "list of values",
			       safe_lib_tolstring(L, -2, NULL));
}

/* The values of a list with commas between them. */
static const char *list_text(lua_State *L, int idx, const char *name)
{
	luaL_Buffer list;

	luaL_buffinit(L, &list);
	lua_Integer count = luaL_len(L, idx);
	size_t sum = 0, len;
	check_is_list(L, idx, name);
	for (lua_Integer i = 1; i <= count; i++) {
		script_check(L);
		if (i > 1)
			luaL_addchar(&list, ',');
		lua_geti(L, idx, i);
		if (!lua_isstring(L, -1))
			refuse(L, name, "element %d of the value is a %s", (int)i,
			       luaL_typename(L, -1));
		if (strchr(lua_tolstring(L, -1, &len), ','))
			refuse(L, name, "an element of a list cannot have a comma");
		sum += len + 1;
		check_preset_len(L, sum - 1, name);
		luaL_addvalue(&list);
	}
	luaL_pushresult(&list);
	const char *text = lua_tolstring(L, -1, &len);
	return check_preset(L, text, len, name);
}

/* The text of a default: what a user would write for it. Raises for a value
 * that has none. */
static const char *preset_text(lua_State *L, int idx, const char *name)
{
	idx = lua_absindex(L, idx);
	switch (lua_type(L, idx)) {
	case LUA_TBOOLEAN:
		return lua_pushstring(L, lua_toboolean(L, idx) ? "true" : "false");
	case LUA_TNUMBER:
	case LUA_TSTRING: {
		size_t len;
		const char *text = safe_lib_tolstring(L, idx, &len);
		return check_preset(L, text, len, name);
	}
	case LUA_TTABLE:
		return list_text(L, idx, name);
	default:
		refuse(L, name, "the value cannot be a %s", luaL_typename(L, idx));
	}
	return NULL;
}

static const char *check_name(lua_State *L, int idx)
{
	struct slice name;

	name.data = lua_tolstring(L, idx, &name.len);
	if (!slice_is_name(name) || name.len > OPTION_NAME_MAX ||
	    memchr(name.data, '=', name.len))
		luaL_error(L,
			   "'%s' is not a name of an option: 1 to %d bytes without white "
			   "space and '='",
			   name.data, OPTION_NAME_MAX);
	return name.data;
}

/* The text of the value on the top. */
static const char *value_text(lua_State *L, const char *name)
{
	int value = lua_gettop(L);

	read_only_see_through(L, value);
	return preset_text(L, value, name);
}

/* The value on the top, whose name is below. */
static void take_value(lua_State *L, struct args *out)
{
	const char *name = check_name(L, -2);
	struct slice text = slice_from(value_text(L, name));

	if (args_add(out, slice_from(name), text) != TIDE_OK)
		refuse(L, name, "more than %d options are given", ARGS_MAX);
}

void options_take_values(lua_State *L, struct args *out)
{
	int table = lua_gettop(L);

	if (lua_isnil(L, table))
		return;
	if (!lua_istable(L, table))
		luaL_error(L, "'options' must be a table of values by name, not a %s",
			   luaL_typename(L, table));
	lua_pushvalue(L, table);
	read_only_see_through(L, -1);
	for (lua_pushnil(L); lua_next(L, table + 1) != 0; lua_settop(L, table + 2)) {
		if (lua_type(L, -2) != LUA_TSTRING)
			luaL_error(L, "'options' must be a table of values by name");
		take_value(L, out);
	}
	lua_settop(L, table);
}

static enum option_type check_type(lua_State *L, const char *name)
{
	const char *text = lua_tostring(L, -1);
	enum option_type type = OPTION_TEXT;

	if (!text || !option_type_find(text, &type))
		refuse(L, name,
		       "a type must be one of string integer number boolean duration "
		       "list, not %s",
		       safe_lib_tolstring(L, -1, NULL));
	return type;
}

/* A bound: a number, or a duration as text. */
static double check_bound(lua_State *L, const char *name)
{
	int64_t ms;

	if (lua_type(L, -1) == LUA_TNUMBER && isfinite(lua_tonumber(L, -1)))
		return lua_tonumber(L, -1);
	if (lua_type(L, -1) == LUA_TSTRING &&
	    duration_parse(slice_from(lua_tostring(L, -1)), &ms) == TIDE_OK)
		return (double)ms;
	return luaL_error(L, "option '%s': a bound must be a number or a duration", name);
}

static void check_choices(lua_State *L, struct option *o)
{
	if (!lua_istable(L, -1))
		refuse(L, o->row.name, "'choices' must be a list of texts");
	lua_Integer count = luaL_len(L, -1);
	if (count < 1)
		refuse(L, o->row.name, "no choices");
	if (count > OPTION_CHOICES_MAX)
		refuse(L, o->row.name, "more than %d choices", OPTION_CHOICES_MAX);
	for (lua_Integer i = 1; i <= count; i++) {
		size_t len;
		lua_geti(L, -1, i);
		const char *choice = lua_tolstring(L, -1, &len);
		if (!choice || len > OPTION_CHOICE_MAX ||
		    args_add(&o->choices, (struct slice){ choice, len }, SLICE("1")) !=
			    TIDE_OK)
			refuse(L, o->row.name,
			       "choice %d must be a text of 1 to %d bytes without "
			       "white space and '=', and appear once",
			       (int)i, OPTION_CHOICE_MAX);
		lua_pop(L, 1);
	}
}

/* The type with an order, and therefore with bounds; of a list, that of its elements. */
static enum option_type value_type(const struct option *o)
{
	return o->row.type == OPTION_LIST ? o->row.of : o->row.type;
}

static void check_bounds(lua_State *L, const struct option *o)
{
	if (!o->row.has_min && !o->row.has_max)
		return;
	if (!option_type_is_ordered(value_type(o)))
		refuse(L, o->row.name, "min and max need a type with an order, not %s",
		       option_type_name(value_type(o)));
	if (o->row.has_min && o->row.has_max && o->row.min > o->row.max)
		refuse(L, o->row.name, "min is more than max");
}

static void refuse_default(lua_State *L, const struct option *o)
{
	struct buf what = { 0 };

	describe_option(o, &what);
	lua_pushlstring(L, buf_cstr(&what), buf_len(&what));
	buf_deinit(&what);
	refuse(L, o->row.name, "the default must be %s, not '%s'", lua_tostring(L, -1),
	       o->row.fallback);
}

static void check_declaration(lua_State *L, const struct option *o)
{
	struct option_value ignored;

	if (o->row.type == OPTION_LIST && o->row.of == OPTION_LIST)
		refuse(L, o->row.name, "a list cannot contain lists");
	check_bounds(L, o);
	if (strcmp(o->row.name, WILDCARD) == 0 && (o->is_required || o->row.fallback))
		luaL_error(L, "option '*' stands for any name: it can be neither "
			      "required nor have a default");
	if (o->is_required && o->row.fallback)
		refuse(L, o->row.name, "a required option cannot have a default");
	for (size_t i = 0; i < o->choices.count; i++) {
		const char *choice = o->choices.items[i].name;
		if (!option_read(&o->row, value_type(o), choice, &ignored))
			refuse(L, o->row.name, "the choice '%s' is not allowed", choice);
	}
	if (o->row.fallback && !is_allowed(o, o->row.fallback))
		refuse_default(L, o);
}

/* Push the field in the place of the one before. */
static bool has_field(lua_State *L, int table, const char *name)
{
	lua_settop(L, table);
	lua_pushstring(L, name);
	return lua_rawget(L, table) != LUA_TNIL;
}

static void read_fields(lua_State *L, int table, struct option *o)
{
	static const char *const names[] = { "type", "default", "doc",      "min", "max",
					     "of",   "choices", "required", NULL };
	char owner[OPTION_NAME_MAX + 16];

	snprintf(owner, sizeof(owner), "option '%s'", o->row.name);
	field_check_names(L, table, owner, names);
	if (has_field(L, table, "type"))
		o->row.type = check_type(L, o->row.name);
	if (has_field(L, table, "of")) {
		o->row.of = check_type(L, o->row.name);
		if (o->row.type != OPTION_LIST)
			refuse(L, o->row.name, "only a list takes 'of'");
	}
	if (has_field(L, table, "doc"))
		o->row.help = options_take_doc(L, o->row.name);
	if (has_field(L, table, "default"))
		o->row.fallback = mem_strdup(value_text(L, o->row.name));
	if (has_field(L, table, "required") && !lua_isboolean(L, -1))
		refuse(L, o->row.name, "'required' must be true or false, not a %s",
		       luaL_typename(L, -1));
	o->is_required = lua_toboolean(L, -1);
	o->row.has_min = has_field(L, table, "min");
	o->row.min = o->row.has_min ? check_bound(L, o->row.name) : 0;
	o->row.has_max = has_field(L, table, "max");
	o->row.max = o->row.has_max ? check_bound(L, o->row.name) : 0;
	if (has_field(L, table, "choices"))
		check_choices(L, o);
	lua_settop(L, table);
}

/* The declaration of one option on the top, its name below. */
static void declare(lua_State *L, struct options *o)
{
	if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1))
		luaL_error(L, "options are declared as name = { type = ..., ... }");
	if (o->count == OPTIONS_MAX)
		luaL_error(L, "more than %d options", OPTIONS_MAX);
	read_only_see_through(L, -1); /* of a module */
	const char *name = check_name(L, -2);
	struct option *option = &o->items[o->count++];

	*option = (struct option){ .row.name = mem_strdup(name) };
	read_fields(L, lua_gettop(L), option);
	check_declaration(L, option);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct option *)a)->row.name,
		      ((const struct option *)b)->row.name);
}

void options_declare(lua_State *L, struct options *o)
{
	if (lua_isnil(L, -1))
		return;
	if (!lua_istable(L, -1))
		luaL_error(L, "options must be a table, not a %s", luaL_typename(L, -1));
	read_only_see_through(L, -1);
	o->items = mem_zalloc(OPTIONS_MAX * sizeof(*o->items));
	for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1))
		declare(L, o);
	o->items = mem_realloc(o->items, (o->count + 1) * sizeof(*o->items));
	qsort(o->items, o->count, sizeof(*o->items), by_name);
}

static const struct option *find_option(const struct options *o, const char *name)
{
	const struct option *wildcard = NULL;

	for (size_t i = 0; i < o->count; i++) {
		if (strcmp(o->items[i].row.name, name) == 0)
			return &o->items[i];
		if (strcmp(o->items[i].row.name, WILDCARD) == 0)
			wildcard = &o->items[i];
	}
	return wildcard;
}

static int refuse_name(const struct options *o, const char *name, const char *script,
		       struct error *err)
{
	struct buf names = { 0 };

	for (size_t i = 0; i < o->count; i++)
		buf_printf(&names, " %s", o->items[i].row.name);
	error_set(err, TIDE_EMISMATCH, "%s has no option '%s'; it has%s", script, name,
		  o->count ? buf_cstr(&names) : " none");
	buf_deinit(&names);
	return TIDE_EMISMATCH;
}

static int refuse_value(const struct option *o, const struct arg *arg, const char *script,
			struct error *err)
{
	struct buf what = { 0 };

	describe_option(o, &what);
	error_set(err, TIDE_EMISMATCH, "option '%s' of %s must be %s, not '%s'",
		  arg->name, script, buf_cstr(&what), arg->value);
	buf_deinit(&what);
	return TIDE_EMISMATCH;
}

int options_check(const struct options *o, const struct args *args, const char *script,
		  struct error *err)
{
	for (size_t i = 0; args && i < args->count; i++) {
		const struct arg *arg = &args->items[i];
		const struct option *option = find_option(o, arg->name);
		if (!option || strcmp(arg->name, WILDCARD) == 0)
			return refuse_name(o, arg->name, script, err);
		if (!is_allowed(option, arg->value))
			return refuse_value(option, arg, script, err);
	}
	for (size_t i = 0; i < o->count; i++) {
		const struct option *option = &o->items[i];
		if (option->is_required && !(args && args_get(args, option->row.name)))
			return error_set(err, TIDE_EMISMATCH, "%s needs the option '%s'",
					 script, option->row.name);
	}
	return TIDE_OK;
}

static bool is_different(const struct options *o, const struct args *has,
			 const struct args *wanted, struct option_difference *d)
{
	const struct option *option = find_option(o, d->name);
	const char *preset = option ? option->row.fallback : NULL;

	d->has = args_get(has, d->name);
	d->wanted = args_get(wanted, d->name);
	if (!d->has)
		d->has = preset;
	if (!d->wanted)
		d->wanted = preset;
	if (!d->has || !d->wanted)
		return d->has != d->wanted;
	return option ? !option_is_same_text(&option->row, d->has, d->wanted)
		      : strcmp(d->has, d->wanted) != 0;
}

bool options_differ(const struct options *o, const struct args *has,
		    const struct args *wanted, struct option_difference *out)
{
	for (size_t i = 0; i < wanted->count; i++) {
		out->name = wanted->items[i].name;
		if (is_different(o, has, wanted, out))
			return true;
	}
	for (size_t i = 0; i < has->count; i++) {
		out->name = has->items[i].name;
		if (is_different(o, has, wanted, out))
			return true;
	}
	return false;
}

static void push_value(lua_State *L, const struct option_row *row, enum option_type type,
		       const char *text, size_t len)
{
	struct option_value value;

	(void)option_read(row, type, text, &value);
	if (type == OPTION_INTEGER || type == OPTION_DURATION)
		lua_pushinteger(L, (lua_Integer)value.integer);
	else if (type == OPTION_NUMBER)
		lua_pushnumber(L, value.number);
	else if (type == OPTION_BOOLEAN)
		lua_pushboolean(L, value.integer != 0);
	else
		lua_pushlstring(L, text, len);
}

static void push_list(lua_State *L, const struct option_row *row, const char *text)
{
	lua_newtable(L);
	if (!*text)
		text = NULL; /* no element, and not an empty one */
	for (lua_Integer i = 1; text; i++) {
		size_t len = strcspn(text, ",");
		/* The readers want an end; the copy is Lua's, so nothing leaks. */
		const char *element = lua_pushlstring(L, text, len);
		push_value(L, row, row->of, element, len);
		lua_seti(L, -3, i);
		lua_pop(L, 1);
		text = text[len] == ',' ? text + len + 1 : NULL;
	}
	read_only_protect(L);
}

static void set_option(lua_State *L, const struct option *o, const char *name,
		       struct slice text)
{
	if (o->row.type == OPTION_LIST)
		push_list(L, &o->row, text.data);
	else
		push_value(L, &o->row, o->row.type, text.data, text.len);
	lua_setfield(L, -2, name);
}

void options_push(lua_State *L, struct options *o, const struct args *args)
{
	bool has_args = args && args->count > 0;

	if (!has_args && o->presets != LUA_NOREF) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, o->presets);
		return;
	}
	lua_newtable(L);
	for (size_t i = 0; i < o->count; i++) {
		const struct option *option = &o->items[i];
		if (option->row.fallback)
			set_option(L, option, option->row.name,
				   slice_from(option->row.fallback));
	}
	for (size_t i = 0; has_args && i < args->count; i++) {
		const struct arg *arg = &args->items[i];
		set_option(L, find_option(o, arg->name), arg->name,
			   (struct slice){ arg->value, arg->value_len });
	}
	read_only_protect(L);
	if (!has_args) {
		lua_pushvalue(L, -1);
		o->presets = luaL_ref(L, LUA_REGISTRYINDEX);
	}
}
