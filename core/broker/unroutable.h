/* unroutable.h: the publishes to an exchange that no queue took: how many, and the keys
 * seen last. */
#pragma once

#include <stdint.h>

#include "base/json.h"
#include "base/slice.h"

#define UNROUTABLE_KEYS_MAX 8

/* Zeroed it is empty. */
struct unroutable {
	uint64_t count;
	struct unroutable_key *keys; /* NULL before the first */
	unsigned key_count;
};

void unroutable_deinit(struct unroutable *u);
/* One more. A key that is not in the sample takes the place of the one seen longest ago.
 */
void unroutable_add(struct unroutable *u, struct slice key, int64_t now_ms);
/* The members "unroutable" and "unroutable_keys", the last one first. */
void unroutable_write(const struct unroutable *u, struct json *out);
