#include "key_index.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/mem.h"

#define SLOTS_MIN 1024
#define KEYS_CAP_MIN 4096

/* Open addressing. The keys lie one after the other: a byte, the length, and the key. */
struct key_slot {
	uint32_t at; /* of the key; 0: the slot is free */
	uint32_t hash;
	uint64_t offset;
};

struct key_index {
	struct key_slot *slots;
	uint32_t mask;
	uint32_t count;
	char *keys;
	size_t keys_len, keys_cap, keys_max;
};

struct key_index *key_index_create(uint64_t keys_max, size_t bytes_max)
{
	struct key_index *k = mem_zalloc(sizeof(*k));
	uint64_t slots = SLOTS_MIN;

	/* All at once, so that no turn copies it. What is not used is not touched. */
	while (slots / 4 * 3 < keys_max && slots * 2 * sizeof(*k->slots) <= bytes_max / 2)
		slots *= 2;
	k->slots = mem_zalloc(slots * sizeof(*k->slots));
	k->mask = (uint32_t)(slots - 1);
	k->keys_max = bytes_max / 2 < UINT32_MAX ? bytes_max / 2 : UINT32_MAX;
	k->keys_len = 1;
	return k;
}

void key_index_destroy(struct key_index *k)
{
	if (!k)
		return;
	mem_free(k->slots);
	mem_free(k->keys);
	mem_free(k);
}

static bool is_key(const struct key_index *k, const struct key_slot *slot,
		   struct slice key)
{
	const char *at = k->keys + slot->at;

	return (uint8_t)*at == key.len && bytes_is_equal(at + 1, key.data, key.len);
}

/* The one that has the key, or the free one that it goes to. */
static struct key_slot *slot_of(const struct key_index *k, struct slice key,
				uint32_t hash)
{
	uint32_t i = hash & k->mask;

	while (k->slots[i].at &&
	       (k->slots[i].hash != hash || !is_key(k, &k->slots[i], key)))
		i = (i + 1) & k->mask;
	return &k->slots[i];
}

static bool make_room(struct key_index *k, size_t len)
{
	size_t cap = k->keys_cap ? k->keys_cap : KEYS_CAP_MIN;

	if (k->count >= k->mask / 4 * 3 || k->keys_len + len > k->keys_max)
		return false;
	while (cap < k->keys_len + len)
		cap *= 2;
	if (cap != k->keys_cap)
		k->keys = mem_realloc(k->keys, cap);
	k->keys_cap = cap;
	return true;
}

bool key_index_put(struct key_index *k, struct slice key, uint64_t offset)
{
	uint32_t hash = bytes_hash(key.data, key.len);
	struct key_slot *slot = slot_of(k, key, hash);

	assert(key.len <= NAME_LEN_MAX);
	if (slot->at == 0) {
		if (!make_room(k, 1 + key.len))
			return false;
		slot->at = (uint32_t)k->keys_len;
		slot->hash = hash;
		k->keys[k->keys_len] = (char)key.len;
		memcpy(k->keys + k->keys_len + 1, key.data, key.len);
		k->keys_len += 1 + key.len;
		k->count++;
	}
	slot->offset = offset;
	return true;
}

bool key_index_find(const struct key_index *k, struct slice key, uint64_t *offset)
{
	const struct key_slot *slot = slot_of(k, key, bytes_hash(key.data, key.len));

	*offset = slot->offset;
	return slot->at > 0;
}
