/* table.h: uthash, with a hash and a comparison that suit short keys.
 *
 * Include it instead of <uthash.h>: all users of a table must agree on its hash. */
#pragma once

#include "bytes.h"

#ifdef UTHASH_H
#error "base/table.h is to be included instead of uthash.h"
#endif

#define HASH_FUNCTION(key, len, hash) (hash) = bytes_hash((const char *)(key), (len))
#define HASH_KEYCMP(a, b, len) \
	(!bytes_is_equal((const char *)(a), (const char *)(b), (len)))

#include <uthash.h>
