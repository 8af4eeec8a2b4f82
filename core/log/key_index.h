/* key_index.h: where each key was seen last: keys and offsets, in bounded memory.
 *
 * It is exact: keys are compared, not their hashes alone. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"

struct key_index;

/* @param keys_max   how many keys will come at most, as far as it is known
 * @param bytes_max  of its memory */
struct key_index *key_index_create(uint64_t keys_max, size_t bytes_max);
/* Accepts NULL. */
void key_index_destroy(struct key_index *k);
/* Keys are at most NAME_LEN_MAX long. False: it is full, nothing was noted. */
bool key_index_put(struct key_index *k, struct slice key, uint64_t offset);
/* False: the key is not in it. */
bool key_index_find(const struct key_index *k, struct slice key, uint64_t *offset);
