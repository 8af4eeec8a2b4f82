#include "api_match.h"

#include <ctype.h>
#include <lauxlib.h>

#include "cidr.h"
#include "base/topic_pattern.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/script.h"

/* match (pattern, text) -> whether the topic pattern matches */
static int l_match(lua_State *L)
{
	luaL_checkstring(L, 1);
	luaL_checkstring(L, 2);
	struct slice pattern = field_slice(L, 1), text = field_slice(L, 2);
	luaL_argcheck(L, pattern.len <= NAME_LEN_MAX, 1,
		      "the pattern has more than 255 bytes");
	luaL_argcheck(L, text.len <= API_MATCH_TEXT_MAX, 2,
		      "the text has more than 1024 bytes");
	const char *fault = topic_pattern_fault(pattern);
	if (fault)
		return luaL_error(L, "the topic pattern '%s' %s", lua_tostring(L, 1),
				  fault);
	lua_pushboolean(L, topic_pattern_matches(pattern, text));
	return 1;
}

struct networks {
	size_t count;
	struct cidr items[];
};

static bool is_gap(char c)
{
	return c == ',' || isspace((unsigned char)c);
}

/* Take the next word from the text; false: there is none. */
static bool next_word(struct slice *rest, struct slice *word)
{
	while (rest->len && is_gap(rest->data[0]))
		*rest = slice_skip(*rest, 1);
	*word = (struct slice){ rest->data, 0 };
	while (word->len < rest->len && !is_gap(rest->data[word->len]))
		word->len++;
	*rest = slice_skip(*rest, word->len);
	return word->len > 0;
}

static size_t count_words(struct slice text)
{
	struct slice word;
	size_t count = 0;

	while (next_word(&text, &word))
		count++;
	return count;
}

/* cidr (list) -> an object with `has` */
static int l_cidr(lua_State *L)
{
	luaL_checkstring(L, 1);
	struct slice text = field_slice(L, 1), word;
	struct error err;
	size_t count = count_words(text);
	luaL_argcheck(L, count > 0, 1, "there is no network in it");
	luaL_argcheck(L, count <= API_MATCH_NETWORKS_MAX, 1,
		      "there are more than 1024 networks");
	struct networks *n =
		lua_newuserdatauv(L, sizeof(*n) + count * sizeof(n->items[0]), 0);
	for (n->count = 0; next_word(&text, &word); n->count++)
		if (cidr_parse(word, &n->items[n->count], &err) != TIDE_OK)
			return luaL_error(L, "%s", err.text);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_setmetatable(L, -2);
	return 1;
}

/* networks:has(address) -> boolean; nil and a message for what is no address.
 * Upvalue: the metatable of the objects. */
static int l_has(lua_State *L)
{
	bool is_one = lua_type(L, 1) == LUA_TUSERDATA && lua_getmetatable(L, 1) &&
		      lua_rawequal(L, -1, lua_upvalueindex(1));
	struct cidr_address address;

	luaL_argcheck(L, is_one, 1, "call it as networks:has(address)");
	const struct networks *n = lua_touserdata(L, 1);
	luaL_checkstring(L, 2);
	if (!cidr_read_address(field_slice(L, 2), &address)) {
		lua_pushnil(L);
		lua_pushfstring(L, "'%s' is not an IP address", lua_tostring(L, 2));
		return 2;
	}
	size_t i = 0;
	while (i < n->count && !cidr_has(&n->items[i], &address))
		i++;
	lua_pushboolean(L, i < n->count);
	return 1;
}

void api_match_add(lua_State *L)
{
	lua_pushcfunction(L, l_match);
	lua_setfield(L, -2, "match");
	lua_createtable(L, 0, 3); /* the metatable, which no script gets hold of */
	lua_pushliteral(L, "tide.cidr");
	lua_setfield(L, -2, "__name");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_createtable(L, 0, 1);
	lua_pushvalue(L, -2);
	lua_pushcclosure(L, l_has, 1);
	lua_setfield(L, -2, "has");
	lua_setfield(L, -2, "__index");
	lua_pushcclosure(L, l_cidr, 1);
	lua_setfield(L, -2, "cidr");
}
