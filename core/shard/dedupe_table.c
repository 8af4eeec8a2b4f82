#include "dedupe_table.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/msg.h"

#define SEGMENT_BUCKETS 64 /* half a kilobyte: there may be many small tables */
#define SEGMENTS_FIRST 4
#define ALLOC_OVERHEAD 16 /* of malloc, about */

void dedupe_table_init(struct dedupe_table *t, enum dedupe_table_kind kind)
{
	*t = (struct dedupe_table){ .kind = kind };
	TAILQ_INIT(&t->ages);
	TAILQ_INIT(&t->leaving);
}

static size_t record_size(const struct dedupe_table *t, size_t len)
{
	size_t offset = t->kind == DEDUPE_TABLE_OFFSETS ? sizeof(uint64_t) : 0;

	return sizeof(struct dedupe_record) + len + offset;
}

size_t dedupe_table_record_bytes(const struct dedupe_table *t, size_t len)
{
	size_t bytes = record_size(t, len) + ALLOC_OVERHEAD + sizeof(void *);

	return t->kind == DEDUPE_TABLE_MESSAGES ? bytes + ID_TABLE_ITEM_BYTES : bytes;
}

static uint32_t hash_key(const struct dedupe_key *key)
{
	return bytes_hash(key->publish_id.data, key->publish_id.len) + key->copy;
}

/* The largest power of two that is not above `n`. */
static size_t floor_power(size_t n)
{
	return (size_t)1 << (63 - __builtin_clzll(n));
}

static struct dedupe_record **bucket(const struct dedupe_table *t, size_t i)
{
	return &t->segments[i / SEGMENT_BUCKETS][i % SEGMENT_BUCKETS];
}

/* Buckets that have been split already are told apart by one more bit. */
static struct dedupe_record **bucket_of(const struct dedupe_table *t, uint32_t hash)
{
	size_t whole = floor_power(t->buckets);
	size_t i = hash & (2 * whole - 1);

	return bucket(t, i < t->buckets ? i : i - whole);
}

static void add_segment(struct dedupe_table *t)
{
	size_t n = t->buckets / SEGMENT_BUCKETS;

	MEM_GROW(t->segments, n, t->segment_cap, SEGMENTS_FIRST);
	t->segments[n] = mem_zalloc(SEGMENT_BUCKETS * sizeof(**t->segments));
}

static void put(struct dedupe_table *t, struct dedupe_record *r)
{
	struct dedupe_record **at = bucket_of(t, r->hash);

	r->chain = *at;
	*at = r;
}

/* Put the records of a chain where they belong now. */
static void put_chain(struct dedupe_table *t, struct dedupe_record **chain)
{
	struct dedupe_record *r = *chain, *next;

	for (*chain = NULL; r; r = next) {
		next = r->chain;
		put(t, r);
	}
}

/* One bucket more: what belongs there leaves the one that it is split from. */
static void grow(struct dedupe_table *t)
{
	if (t->buckets % SEGMENT_BUCKETS == 0)
		add_segment(t);
	if (t->buckets == 0) {
		t->buckets = SEGMENT_BUCKETS;
		return;
	}
	t->buckets++;
	put_chain(t, bucket(t, t->buckets - 1 - floor_power(t->buckets - 1)));
}

/* One bucket less, unless it is one of the first. */
static void shrink(struct dedupe_table *t)
{
	if (t->buckets <= SEGMENT_BUCKETS)
		return;
	t->buckets--;
	put_chain(t, bucket(t, t->buckets));
	if (t->buckets % SEGMENT_BUCKETS == 0)
		mem_free(t->segments[t->buckets / SEGMENT_BUCKETS]);
}

static void free_buckets(struct dedupe_table *t)
{
	for (size_t i = 0; i < t->buckets; i += SEGMENT_BUCKETS)
		mem_free(t->segments[i / SEGMENT_BUCKETS]);
	mem_free(t->segments);
	t->segments = NULL;
	t->segment_cap = t->buckets = 0;
}

struct dedupe_record *dedupe_table_find(const struct dedupe_table *t,
					const struct dedupe_key *key)
{
	uint32_t hash;
	struct dedupe_record *r;

	if (t->count == 0)
		return NULL;
	hash = hash_key(key);
	for (r = *bucket_of(t, hash); r; r = r->chain)
		if (r->hash == hash && r->copy == key->copy &&
		    slice_is_equal(dedupe_record_id(r), key->publish_id))
			return r;
	return NULL;
}

struct dedupe_record *dedupe_table_add(struct dedupe_table *t,
				       const struct dedupe_key *key, uint64_t msg_id)
{
	size_t len = key->publish_id.len;
	struct dedupe_record *r = mem_zalloc(record_size(t, len));

	assert(len > 0 && len <= MSG_DEDUPE_ID_MAX);
	r->len = (uint8_t)len;
	r->msg_id = msg_id;
	r->copy = (uint16_t)key->copy;
	memcpy(r->publish_id, key->publish_id.data, len);
	r->hash = hash_key(key);
	if (t->count >= t->buckets)
		grow(t);
	put(t, r);
	TAILQ_INSERT_TAIL(&t->ages, r, age_link);
	t->count++;
	if (t->kind == DEDUPE_TABLE_MESSAGES)
		id_table_add(&t->messages, msg_id, r);
	return r;
}

struct dedupe_record *dedupe_table_of_message(const struct dedupe_table *t,
					      uint64_t msg_id)
{
	return id_table_find(&t->messages, msg_id);
}

static void unlink_key(struct dedupe_table *t, struct dedupe_record *r)
{
	struct dedupe_record **at = bucket_of(t, r->hash);

	while (*at != r)
		at = &(*at)->chain;
	*at = r->chain;
	TAILQ_REMOVE(&t->ages, r, age_link);
	t->count--;
	if (t->count == 0)
		free_buckets(t);
	else if (t->count < t->buckets / 2)
		shrink(t);
}

void dedupe_table_leave(struct dedupe_table *t, struct dedupe_record *r)
{
	unlink_key(t, r);
	r->is_leaving = true;
	TAILQ_INSERT_TAIL(&t->leaving, r, age_link);
}

void dedupe_table_remove(struct dedupe_table *t, struct dedupe_record *r)
{
	if (r->is_leaving)
		TAILQ_REMOVE(&t->leaving, r, age_link);
	else
		unlink_key(t, r);
	if (t->kind == DEDUPE_TABLE_MESSAGES)
		id_table_remove(&t->messages, r->msg_id);
	mem_free(r);
}
