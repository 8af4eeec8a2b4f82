/* read_only.h: views of tables that several scripts share, or that are not theirs.
 *
 * A view is an empty table that reads through and refuses every change. `pairs`,
 * `ipairs`, `next`, `#`, rawget, rawlen and setmetatable know views. C functions that go
 * through a script's table call read_only_see_through first.
 *
 * All functions may raise. */
#pragma once

#include <lua.h>
#include <stdbool.h>

void read_only_open(lua_State *L);

/* Replace the table on the top by a view of it. The tables in it must be views. Quick to
 * read. */
void read_only_protect(lua_State *L);
/* Replace a table on the top by a view at all depths: the tables that are read through it
 * are views, also those that come later. It can be called, compared and computed with as
 * the table can. Any other value, and a view, stays. */
void read_only_show(lua_State *L);

/* Replace a view at `idx` by the table that it shows. False: it is no view. The table
 * must not reach a script. */
bool read_only_see_through(lua_State *L, int idx);
