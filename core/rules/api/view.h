/* view.h: what scripts see of the broker's structures: read-only userdata.
 *
 * A view is good for the call in which it is made, and says so when it is used later.
 * Reading an unknown field is an error that lists the fields. Writing is an error. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "rules/sandbox/script.h"

struct view_field {
	const char *name;
	void (*push)(lua_State *L, const void *member);
	size_t offset; /* of the member in the subject; 0 gives the subject */
	bool is_pure;  /* the same for each message with the same address */
};

/* The metatables of a state are found by these: a lookup by address costs three times as
 * much. */
enum view_number {
	VIEW_CLIENT,
	VIEW_CONSUMER,
	VIEW_DRAFT,
	VIEW_DRAFT_HEADERS,
	VIEW_FAILURE,
	VIEW_LOGIN,
	VIEW_MSG,
	VIEW_MSG_HEADERS,
	VIEW_OBJECT,
	VIEW_OUTCOME,
	VIEW_QUEUE,
	VIEW_QUEUE_FACTS,
	VIEW_USER,
	VIEW_COUNT
};
_Static_assert(VIEW_COUNT <= SCRIPT_VIEWS_MAX, "a state has room for all views");

struct view_type {
	enum view_number number;
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
/* The same for a subject that several calls in a row see. The first view is kept, and
 * serves the later calls, each for its time. *is_kept is the subject's, false at first.
 */
void view_push_kept(lua_State *L, const struct view_type *type, const void *subject,
		    bool *is_kept);
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
/* The object of argument 1, for the metamethods of a type: scripts cannot call them
 * with anything else. */
const void *view_self(lua_State *L);
