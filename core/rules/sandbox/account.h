/* account.h: how much of a state's memory each script holds, for each vhost; and the one
 * instruction that can take seconds: a table that grows.
 *
 * An allocation is charged to the script that runs, and to the vhost that it runs for.
 * When it is freed, it is the same account's again. A block that grows goes over to
 * whoever makes it grow.
 *
 * Lua places numbers by their value alone, so that numbers can be chosen to share one
 * place. A table that grows puts each of its keys in its new place, behind all that are
 * there: with n such keys that takes n * n / 2 steps, and nothing interrupts it. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/table.h"

/* Clients make vhosts: further ones share the account of the script without a vhost. */
#define ACCOUNTS_MAX 4096

struct account {
	UT_hash_handle hh;
	size_t bytes;
	size_t granted; /* the most that it held within its share */
	/* The bytes that were used when something new found no room; 0: there was
	 * room. */
	size_t full_bytes;
	/* The script's kept values leave no room: its next calls fail too. */
	bool is_exhausted;
	int64_t rests_until_ms; /* it is not called meanwhile */
	const char *file;       /* both are in `key` */
	struct slice vhost;     /* empty: of no vhost, as when a file is loaded */
	/* Of the same file. The one without a vhost is the head of the list. */
	struct account *next_of_file;
	size_t key_len;
	char key[];
};

/* The account in a uthash of them; made if it is new. */
struct account *account_open(struct account **table, const char *file,
			     struct slice vhost);
void account_free_all(struct account **table);
/* The account that holds most memory; NULL without accounts. */
const struct account *account_largest(const struct account *table);

/* The bytes that a script holds for all vhosts. Goes through its accounts alone. */
size_t account_sum(struct account **table, const char *file);

/* The share of a script in a state of `max` bytes: twice as much as is then left of
 * three quarters. One alone gets half of the state, the next a sixth, and so on: the
 * first one leaves something for all others. */
static inline size_t account_share(const struct account *a, size_t used, size_t max)
{
	size_t shared = max / 4 * 3, others = used - a->bytes;

	return shared > others ? (shared - others) / 3 * 2 : 0;
}

/* How much more it may take. Calls need room even where the share has become smaller,
 * since others hold more: what was granted once stays granted, and some more. */
static inline size_t account_room(const struct account *a, size_t used, size_t max)
{
	size_t share = account_share(a, used, max);
	size_t limit = (share > a->granted ? share : a->granted) + max / 16;
	size_t room = limit > a->bytes ? limit - a->bytes : 0;

	return room < max - used ? room : max - used;
}

/* Everything has been collected: what was granted and is not used is given back. */
void account_settle(struct account *table);

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
