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

/* The blocks of keys of large tables, in a state. */
struct rehash {
	struct rehash_block {
		const void *keys;
		size_t bytes;
	} * blocks;
	size_t count;
};

void rehash_deinit(struct rehash *r);
/* A block of this size may have the keys of a large table: add it when Lua has got it,
 * and remove it before it is freed. */
bool rehash_is_keys(size_t bytes);
void rehash_add(struct rehash *r, const void *keys, size_t bytes);
void rehash_remove(struct rehash *r, const void *keys);

/* Lua asks for a block for keys, and has changed nothing yet. Would a table of the
 * running function take longer than the budget to move there? The caller may raise an
 * error, as Lua does here for a table that is too large.
 *
 * @param block  its content is lost */
bool rehash_is_long(const struct rehash *r, lua_State *L, void *block, size_t bytes,
		    int64_t budget_ms);
