/* view.h: what scripts see of the broker's structures: read-only userdata.
 *
 * A view is good for the call in which it is made, and says so when it is used later.
 * Reading an unknown field is an error that lists the fields. Writing is an error. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

struct view_field {
	const char *name;
	void (*push)(lua_State *L, const void *member);
	size_t offset; /* of the member in the subject; 0 gives the subject */
	bool is_pure;  /* the same for each message with the same address */
};

struct view_type {
	const char *name;                /* "msg" */
	const struct view_field *fields; /* ends with a NULL name */
	const struct view_field *more;   /* further fields, or NULL */
	/* Functions with the type as their first upvalue: see view_self. */
	lua_CFunction index; /* instead of fields, for names that are not known before */
	lua_CFunction pairs;
	lua_CFunction newindex; /* NULL: it is read-only */
};

/* Make the type known to the state, once, before view_push. May raise. */
void view_open(lua_State *L, const struct view_type *type);
/* Push a view of `subject`, which must outlive the call under way. May raise. */
void view_push(lua_State *L, const struct view_type *type, const void *subject);
/* The subject of the view at `idx`. Raises for other values and expired views. */
const void *view_check(lua_State *L, int idx, const struct view_type *type);
/* `push` of members: a slice; one that is nil without data; one that is nil when it is
 * empty; a text, NULL is nil; a bool; `unsigned` and `uint32_t`; 64 bits. */
void view_push_slice(lua_State *L, const void *member);
void view_push_given(lua_State *L, const void *member);
void view_push_optional(lua_State *L, const void *member);
void view_push_text(lua_State *L, const void *member);
void view_push_bool(lua_State *L, const void *member);
void view_push_uint(lua_State *L, const void *member);
void view_push_int64(lua_State *L, const void *member);
/* That of argument 1, for the functions of a type. */
const void *view_self(lua_State *L);
