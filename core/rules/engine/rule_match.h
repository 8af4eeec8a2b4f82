/* rule_match.h: what a script is for: its `match`.
 *
 *   match = { exchange = "orders", key = "eu.#", except = { user = { "test", "probe" } }
 * }
 *
 * A value may be a list of values. Everything that is given must fit, and `except` must
 * not. exchange, key, queue and vhost are the **address**: who asks often remembers the
 * answer for an address. user, headers and size differ from message to message. */
#pragma once

#include <lua.h>
#include <stdbool.h>

#include "base/json.h"
#include "base/msg.h"
#include "script_kind.h"

/* The subject that a match is held against. An empty name: there is none; the
 * exchange is then the default one. */
struct hook_subject {
	struct slice vhost, exchange, key, queue, user;
	const struct msg *msg; /* its headers and size; NULL: there is none */
};

struct match_words {
	char **items; /* "" is the default exchange, or the empty key */
	size_t count; /* 0: any */
};

struct match_header {
	char *name;
	struct match_words values; /* none: any */
	bool is_absent;            /* the message must not have it */
};

struct rule_match {
	struct match_words exchange; /* names; in declare/ topic patterns */
	struct match_words key;      /* topic patterns */
	struct match_words queue;    /* topic patterns */
	struct match_words vhost, user;
	struct match_header *headers;
	size_t header_count;
	size_t min_bytes, max_bytes; /* of the payload */
	bool is_per_message;         /* not the address alone decides */
	bool is_declare;
	struct rule_match *except; /* NULL: nothing */
};

/* Read `match` of the script's table on the top. Without one *out stays NULL. What has
 * been read is in *out, whose owner frees it, before a wrong one raises. */
void rule_match_read(lua_State *L, enum script_kind kind, struct rule_match **out);
/* Accepts NULL. */
void rule_match_free(struct rule_match *m);

/* May something with this address match? */
bool rule_match_fits_address(const struct rule_match *m, const struct hook_subject *s);
bool rule_match_fits_rest(const struct rule_match *m, const struct hook_subject *s);
/* For something whose address fits: does it match? */
static inline bool rule_match_fits(const struct rule_match *m,
				   const struct hook_subject *s)
{
	return !m->is_per_message || rule_match_fits_rest(m, s);
}

/* A member `match` with an object: what was given. */
void rule_match_write(const struct rule_match *m, enum script_kind kind,
		      struct json *out);
/* The words as one text: "a,b", "-" for the empty one, `any` for none. */
void rule_match_text(const struct match_words *w, const char *any, struct buf *out);
