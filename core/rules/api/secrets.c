#include "secrets.h"

#include <ctype.h>
#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "rules/sandbox/field.h"
#include "rules/sandbox/script.h"
#include "rules/sandbox/source.h"

#define NAME_MAX_LEN 128

void secrets_deinit(struct secrets *s)
{
	args_deinit(&s->given);
	hidden_deinit(&s->hidden);
}

/* Is it the name of a file in the directory, and of no hidden one? */
static bool is_name(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		unsigned char c = (unsigned char)name.data[i];

		if (!isalnum(c) && c != '_' && c != '-' && (c != '.' || i == 0))
			return false;
	}
	return name.len > 0 && name.len <= NAME_MAX_LEN;
}

static int copy(struct slice text, char *out, size_t *len)
{
	memcpy(out, text.data, text.len);
	*len = text.len;
	return TIDE_OK;
}

static size_t cut_line_end(const char *text, size_t len)
{
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if (len > 0 && text[len - 1] == '\r')
		len--;
	return len;
}

/* The file may be a link, as where an orchestrator mounts secrets. */
static int read_file(const char *dir, struct slice name, char *out, size_t *len,
		     struct error *err)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%" SLICE_FMT, dir, SLICE_ARG(name)) >=
	    (int)sizeof(path))
		return error_set(err, TIDE_ETOOLONG, "the path of a secret is too long");
	int rc = source_read_regular(path, out, SECRETS_TEXT_MAX, len);
	if (rc == -ENOTSUP)
		return error_set(err, TIDE_ENOTFOUND, "%s is not a regular file", path);
	if (rc == -EFBIG)
		return error_set(err, TIDE_ETOOLONG,
				 "%s is larger than 64 KiB, the limit of a secret", path);
	if (rc < 0)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no secret '%" SLICE_FMT "': %s: %s",
				 SLICE_ARG(name), path, strerror(-rc));
	*len = cut_line_end(out, *len);
	if (*len == 0)
		return error_set(err, TIDE_ESYNTAX, "%s is empty", path);
	return TIDE_OK;
}

static int find(const struct secrets *s, struct slice name, char *out, size_t *len,
		struct error *err)
{
	char stand_in[NAME_MAX_LEN + 32];

	if (!is_name(name))
		return error_set(err, TIDE_ESYNTAX,
				 "the name of a secret has letters, digits, '_', '-' and "
				 "'.', at most %d, and does not begin with '.'",
				 NAME_MAX_LEN);
	for (size_t i = 0; i < s->given.count; i++) {
		const struct arg *a = &s->given.items[i];

		if (slice_is(name, a->name))
			return copy((struct slice){ a->value, a->value_len }, out, len);
	}
	if (s->dir)
		return read_file(s->dir, name, out, len, err);
	if (!s->has_stand_ins)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no secret '%" SLICE_FMT
				 "': tide.secret needs serve --secrets DIR",
				 SLICE_ARG(name));
	snprintf(stand_in, sizeof(stand_in), "stand-in for %" SLICE_FMT, SLICE_ARG(name));
	return copy(slice_from(stand_in), out, len);
}

/* secret (name) -> text */
static int l_secret(lua_State *L)
{
	struct secrets *s = lua_touserdata(L, lua_upvalueindex(1));
	char text[SECRETS_TEXT_MAX + 1];
	struct error err;
	size_t len;

	luaL_checkstring(L, 1);
	if (!script_state_of(L)->is_loading)
		return luaL_error(L, "tide.secret is for the top of a file: secrets are "
				     "read while scripts are loaded");
	int rc = find(s, field_slice(L, 1), text, &len, &err);
	if (rc == TIDE_OK) {
		hidden_add(&s->hidden, (struct slice){ text, len });
		lua_pushlstring(L, text, len);
	}
	OPENSSL_cleanse(text, sizeof(text));
	return rc == TIDE_OK ? 1 : luaL_error(L, "%s", err.text);
}

void secrets_add(lua_State *L, struct secrets *s)
{
	lua_pushlightuserdata(L, s);
	lua_pushcclosure(L, l_secret, 1);
	lua_setfield(L, -2, "secret");
}
