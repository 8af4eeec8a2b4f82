#include "rule_match.h"

#include <lauxlib.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/topic_pattern.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/read_only.h"

#define WORDS_MAX 256
#define HEADERS_MAX 64
#define WORD_MAX 1024 /* of a header's value */

/* The keys whose values are words. */
static const struct {
	const char *name;
	size_t offset;
	enum script_match key; /* which kinds have: struct script_row */
	bool is_per_message;
} words[] = {
	{ "exchange", offsetof(struct rule_match, exchange), MATCH_EXCHANGE, false },
	{ "key", offsetof(struct rule_match, key), MATCH_KEY, false },
	{ "queue", offsetof(struct rule_match, queue), MATCH_QUEUE, false },
	{ "vhost", offsetof(struct rule_match, vhost), MATCH_VHOST, false },
	{ "user", offsetof(struct rule_match, user), MATCH_USER, true },
};
#define WORD_KEYS (sizeof(words) / sizeof(words[0]))

static const char *const message_keys[] = { "headers", "min_size", "max_size" };
#define MESSAGE_KEYS 3

static struct match_words *words_of(const struct rule_match *m, size_t i)
{
	return (struct match_words *)((char *)m + words[i].offset);
}

static void free_words(struct match_words *w)
{
	for (size_t i = 0; i < w->count; i++)
		mem_free(w->items[i]);
	mem_free(w->items);
}

void rule_match_free(struct rule_match *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < WORD_KEYS; i++)
		free_words(words_of(m, i));
	for (size_t i = 0; i < m->header_count; i++) {
		mem_free(m->headers[i].name);
		free_words(&m->headers[i].values);
	}
	mem_free(m->headers);
	rule_match_free(m->except);
	mem_free(m);
}

/* From here to rule_match_read: inside the door, it may raise. `path` is "match" or
 * "match.except". */

/* Add the text on the top, an element of a value. */
static void add_word(lua_State *L, struct match_words *w, const char *path,
		     const char *name, bool is_name)
{
	struct slice text = { 0 };

	if (lua_type(L, -1) == LUA_TSTRING)
		text = field_slice(L, -1);
	else
		luaL_error(L, "'%s.%s' must be a text or a list of texts%s, not a %s",
			   path, name, is_name ? "" : ", or true or false",
			   luaL_typename(L, -1));
	if (is_name && slice_is(text, "-"))
		text.len = 0;
	else if (is_name && !slice_is_name(text))
		luaL_error(L,
			   "'%s.%s' must be 1-255 bytes of UTF-8 without white space "
			   "and control characters",
			   path, name);
	if (text.len > WORD_MAX || w->count == WORDS_MAX)
		luaL_error(L, "'%s.%s' takes at most %d texts of %d bytes", path, name,
			   WORDS_MAX, WORD_MAX);
	w->items = mem_realloc(w->items, (w->count + 1) * sizeof(*w->items));
	w->items[w->count++] = mem_strndup(text.data, text.len);
}

/* The value on the top: a text or a list of texts. */
static void read_words(lua_State *L, struct match_words *w, const char *path,
		       const char *name, bool is_name)
{
	lua_Integer count;

	if (!lua_istable(L, -1)) {
		add_word(L, w, path, name, is_name);
		return;
	}
	read_only_see_through(L, lua_gettop(L));
	count = luaL_len(L, -1);
	for (lua_Integer i = 1; i <= count; i++) {
		lua_geti(L, -1, i);
		add_word(L, w, path, name, is_name);
		lua_pop(L, 1);
	}
	if (count < 1)
		luaL_error(L, "'%s.%s' is an empty list: nothing would match", path,
			   name);
}

static bool is_any(const struct match_words *w, size_t key)
{
	return words[key].offset == offsetof(struct rule_match, exchange) &&
	       w->count == 1 && strcmp(w->items[0], "*") == 0;
}

static void read_names(lua_State *L, struct rule_match *m, enum script_kind kind,
		       const char *path)
{
	for (size_t i = 0; i < WORD_KEYS; i++) {
		struct match_words *w = words_of(m, i);

		if (lua_getfield(L, -1, words[i].name) != LUA_TNIL) {
			read_words(L, w, path, words[i].name, true);
			m->is_per_message |= words[i].is_per_message;
		}
		lua_pop(L, 1);
		if (kind != SCRIPT_DECLARE && is_any(w, i)) {
			free_words(w);
			*w = (struct match_words){ .count = 0 };
		}
	}
	if (m->exchange.count && m->queue.count)
		luaL_error(L,
			   "'%s' has both 'exchange' and 'queue', and nothing is both: "
			   "write two files",
			   path);
}

/* The name of a header below the value on the top. */
static void read_header(lua_State *L, struct rule_match *m, const char *path)
{
	struct match_header *h;

	if (lua_type(L, -2) != LUA_TSTRING || m->header_count == HEADERS_MAX)
		luaL_error(L,
			   "'%s.headers' must be a table of at most %d headers, by name",
			   path, HEADERS_MAX);
	m->headers = mem_realloc(m->headers, (m->header_count + 1) * sizeof(*m->headers));
	h = &m->headers[m->header_count++];
	*h = (struct match_header){ .name = mem_strdup(lua_tostring(L, -2)) };
	if (lua_isboolean(L, -1)) {
		h->is_absent = !lua_toboolean(L, -1);
		return;
	}
	lua_pushfstring(L, "headers.%s", h->name);
	lua_insert(L, -2);
	read_words(L, &h->values, path, lua_tostring(L, -2), false);
	lua_remove(L, -2);
}

static void read_headers(lua_State *L, struct rule_match *m, const char *path)
{
	int type = lua_getfield(L, -1, "headers");

	if (type != LUA_TNIL && type != LUA_TTABLE)
		luaL_error(L,
			   "'%s.headers' must be a table like { tenant = \"acme\", test "
			   "= false }, not a %s",
			   path, luaL_typename(L, -1));
	if (type == LUA_TTABLE) {
		read_only_see_through(L, lua_gettop(L));
		for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1))
			read_header(L, m, path);
	}
	m->is_per_message |= m->header_count > 0;
	lua_pop(L, 1);
}

static size_t read_size(lua_State *L, struct rule_match *m, const char *path,
			const char *name, size_t preset)
{
	int is_integer = 0;
	lua_Integer bytes = 0;
	bool is_there = lua_getfield(L, -1, name) != LUA_TNIL;

	if (is_there)
		bytes = lua_tointegerx(L, -1, &is_integer);
	if (is_there && (!is_integer || bytes < 0 || lua_isstring(L, -1) != 1))
		luaL_error(L, "'%s.%s' must be an integer: bytes of the payload", path,
			   name);
	m->is_per_message |= is_there;
	lua_pop(L, 1);
	return is_there ? (size_t)bytes : preset;
}

static void check_names(lua_State *L, enum script_kind kind, const char *path,
			bool has_except)
{
	const char *names[WORD_KEYS + MESSAGE_KEYS + 2];
	char owner[64];
	size_t count = 0;

	for (size_t i = 0; i < WORD_KEYS; i++) {
		if (script_kind_rows[kind].match & words[i].key)
			names[count++] = words[i].name;
	}
	for (size_t i = 0;
	     (script_kind_rows[kind].match & MATCH_MESSAGE) && i < MESSAGE_KEYS; i++)
		names[count++] = message_keys[i];
	if (has_except)
		names[count++] = "except";
	names[count] = NULL;
	snprintf(owner, sizeof(owner), "'%s' of a %s script", path,
		 script_kind_name(kind));
	field_check_names(L, -1, owner, names);
}

/* The table on the top, into *out at once. */
static void read_table(lua_State *L, enum script_kind kind, const char *path,
		       struct rule_match **out)
{
	struct rule_match *m = *out = mem_zalloc(sizeof(**out));
	bool is_outer = strcmp(path, "match") == 0;

	luaL_checkstack(L, 12, NULL);
	read_only_see_through(L, lua_gettop(L));
	check_names(L, kind, path, is_outer);
	m->is_declare = kind == SCRIPT_DECLARE;
	read_names(L, m, kind, path);
	read_headers(L, m, path);
	m->min_bytes = read_size(L, m, path, "min_size", 0);
	m->max_bytes = read_size(L, m, path, "max_size", SIZE_MAX);
	if (m->min_bytes > m->max_bytes)
		luaL_error(L, "'%s.min_size' is above 'max_size': nothing would match",
			   path);
	if (is_outer && lua_getfield(L, -1, "except") != LUA_TNIL) {
		if (!lua_istable(L, -1))
			luaL_error(L,
				   "'match.except' must be a table like 'match', "
				   "not a %s",
				   luaL_typename(L, -1));
		read_table(L, kind, "match.except", &m->except);
		m->is_per_message |= m->except->is_per_message;
	}
	if (is_outer)
		lua_pop(L, 1);
}

void rule_match_read(lua_State *L, enum script_kind kind, struct rule_match **out)
{
	int type = lua_getfield(L, -1, "match");

	if (type != LUA_TNIL && type != LUA_TTABLE)
		luaL_error(L,
			   "'match' must be a table like { exchange = \"orders\", key = "
			   "\"#\" }, not a %s",
			   luaL_typename(L, -1));
	if (type == LUA_TTABLE)
		read_table(L, kind, "match", out);
	lua_pop(L, 1);
}

static bool has_word(const struct match_words *w, struct slice name)
{
	for (size_t i = 0; i < w->count; i++) {
		if (slice_is(name, w->items[i]))
			return true;
	}
	return w->count == 0;
}

static bool has_pattern(const struct match_words *w, struct slice name)
{
	for (size_t i = 0; i < w->count; i++) {
		if (topic_pattern_matches(slice_from(w->items[i]), name))
			return true;
	}
	return w->count == 0;
}

/* Of names that cannot be empty. */
static bool has_name_pattern(const struct match_words *w, struct slice name)
{
	return w->count == 0 || (name.len > 0 && has_pattern(w, name));
}

static bool fits_address(const struct rule_match *m, const struct hook_subject *s)
{
	return has_word(&m->vhost, s->vhost) && has_pattern(&m->key, s->key) &&
	       has_name_pattern(&m->queue, s->queue) &&
	       (m->is_declare ? has_name_pattern(&m->exchange, s->exchange)
			      : has_word(&m->exchange, s->exchange));
}

bool rule_match_fits_address(const struct rule_match *m, const struct hook_subject *s)
{
	return fits_address(m, s) &&
	       !(m->except && !m->except->is_per_message && fits_address(m->except, s));
}

static bool fits_header(const struct match_header *h, const struct msg *m)
{
	struct slice value = msg_header(m, slice_from(h->name));

	if (!value.data || h->is_absent)
		return !value.data == h->is_absent;
	return has_word(&h->values, value);
}

static bool fits_message(const struct rule_match *m, const struct hook_subject *s)
{
	size_t bytes = s->msg ? s->msg->payload_len : 0;

	if (!has_word(&m->user, s->user) || bytes < m->min_bytes || bytes > m->max_bytes)
		return false;
	for (size_t i = 0; i < m->header_count; i++) {
		if (!s->msg || !fits_header(&m->headers[i], s->msg))
			return false;
	}
	return true;
}

bool rule_match_fits_rest(const struct rule_match *m, const struct hook_subject *s)
{
	const struct rule_match *except = m->except;

	return fits_message(m, s) &&
	       !(except && except->is_per_message && fits_address(except, s) &&
		 fits_message(except, s));
}

void rule_match_text(const struct match_words *w, const char *any, struct buf *out)
{
	for (size_t i = 0; i < w->count; i++)
		buf_printf(out, "%s%s", i ? "," : "", w->items[i][0] ? w->items[i] : "-");
	if (w->count == 0)
		buf_append_text(out, any);
}

static void write_words(struct json *out, const char *key, const struct match_words *w,
			const char *any)
{
	struct buf text = { 0 };

	if (w->count == 0 && !any)
		return;
	rule_match_text(w, any, &text);
	json_member_string(out, key, buf_slice(&text));
	buf_deinit(&text);
}

static void write_headers(struct json *out, const struct rule_match *m)
{
	if (m->header_count == 0)
		return;
	json_member_object(out, "headers");
	for (size_t i = 0; i < m->header_count; i++) {
		const struct match_header *h = &m->headers[i];

		if (h->values.count)
			write_words(out, h->name, &h->values, NULL);
		else
			json_member_bool(out, h->name, !h->is_absent);
	}
	json_object_end(out);
}

static void write_match(const struct rule_match *m, bool is_filter, const char *key,
			struct json *out)
{
	json_member_object(out, key);
	write_words(out, "exchange", &m->exchange, is_filter ? "*" : NULL);
	write_words(out, "key", &m->key, is_filter ? "#" : NULL);
	write_words(out, "queue", &m->queue, NULL);
	write_words(out, "vhost", &m->vhost, NULL);
	write_words(out, "user", &m->user, NULL);
	write_headers(out, m);
	if (m->min_bytes > 0)
		json_member_int(out, "min_size", (int64_t)m->min_bytes);
	if (m->max_bytes < SIZE_MAX)
		json_member_int(out, "max_size", (int64_t)m->max_bytes);
	if (m->except)
		write_match(m->except, false, "except", out);
	json_object_end(out);
}

void rule_match_write(const struct rule_match *m, enum script_kind kind, struct json *out)
{
	write_match(m, kind == SCRIPT_FILTER, "match", out);
}
