/* rehash.h: bounds the one instruction that can take seconds: a table that grows.
 *
 * Lua places numbers by their value alone, so that numbers can be chosen to share one
 * place. A table that grows puts each of its keys in its new place, behind all that are
 * there: with n such keys that takes n * n / 2 steps, and nothing interrupts it. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lua asks for a block, and has changed nothing yet. Would a table of the running
 * function, if the block is for its keys, take longer than the budget to move there? The
 * caller may raise an error, as Lua does here for a table that is too large.
 *
 * @param block  its content is lost */
bool rehash_is_long(lua_State *L, void *block, size_t bytes, int64_t budget_ms);
