/* account.h: how much of a state's memory each script holds, for each vhost.
 *
 * An allocation is charged to the script that runs, and to the vhost that it runs for.
 * When it is freed, it is the same account's again. A block that grows goes over to
 * whoever makes it grow. */
#pragma once

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
	/* What was there when something new found no room; 0: none. */
	size_t full_bytes;
	/* What the script keeps leaves no room: its next calls fail too. */
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

/* What a script holds for all vhosts. Goes through its accounts alone. */
size_t account_sum(struct account **table, const char *file);

/* What it may hold of a state of `max` bytes: twice as much as is then left of three
 * quarters. One alone gets half of the state, the next a sixth, and so on: whoever comes
 * first leaves something for all others. */
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
