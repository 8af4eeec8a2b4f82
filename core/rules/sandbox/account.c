#include "account.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "host/machine.h"

#define KEY_MAX 512

static size_t make_key(char out[KEY_MAX], const char *file, struct slice vhost)
{
	size_t len = strlen(file) + 1;

	if (len + vhost.len > KEY_MAX)
		vhost.len = KEY_MAX - len;
	memcpy(out, file, len);
	if (vhost.len)
		memcpy(out + len, vhost.data, vhost.len);
	return len + vhost.len;
}

static struct account *create(struct account **table, const char *key, size_t len)
{
	struct account *a = mem_zalloc(sizeof(*a) + len);
	size_t file_len = strlen(key) + 1;

	memcpy(a->key, key, len);
	a->key_len = len;
	a->file = a->key;
	a->vhost = (struct slice){ a->key + file_len, len - file_len };
	HASH_ADD_KEYPTR(hh, *table, a->key, a->key_len, a);
	return a;
}

struct account *account_open(struct account **table, const char *file, struct slice vhost)
{
	char key[KEY_MAX];
	size_t len = make_key(key, file, vhost);
	struct account *found;

	HASH_FIND(hh, *table, key, len, found);
	if (found)
		return found;
	if (vhost.len == 0)
		return create(table, key, len);
	struct account *head = account_open(table, file, (struct slice){ "", 0 });
	if (HASH_COUNT(*table) >= ACCOUNTS_MAX)
		return head;
	found = create(table, key, len);
	found->next_of_file = head->next_of_file;
	head->next_of_file = found;
	return found;
}

void account_free_all(struct account **table)
{
	struct account *a, *next;

	HASH_ITER (hh, *table, a, next) {
		HASH_DEL(*table, a);
		mem_free(a);
	}
}

const struct account *account_largest(const struct account *table)
{
	const struct account *largest = table;

	for (; table; table = table->hh.next)
		if (table->bytes > largest->bytes)
			largest = table;
	return largest;
}

size_t account_sum(struct account **table, const char *file)
{
	const struct account *a = account_open(table, file, (struct slice){ "", 0 });
	size_t bytes = 0;

	for (; a; a = a->next_of_file)
		bytes += a->bytes;
	return bytes;
}

void account_settle(struct account *table)
{
	for (; table; table = table->hh.next)
		if (table->granted > table->bytes)
			table->granted = table->bytes;
}

/* The keys of smaller tables are moved within some milliseconds, whatever they are. */
#define KEYS_MIN 4096
/* A step is a look at a key: 2 ns, when they are many. */
#define STEPS_PER_MS 500000
/* To find the next key Lua looks at all before it in its place. On average that is more
 * than this when hundreds share one. */
#define NEXT_NS 1000
#define KEYS_PER_LOOK 256

/* The value of a key of a table, as in lobject.h; their number is a power of two. */
struct node {
	uint64_t value;
	uint8_t value_type, key_type;
	int32_t next;
	uint64_t key;
};

/* The places of the table to be. */
struct places {
	uint32_t *taken; /* by so many numbers */
	size_t count;
	uint64_t steps_max;
	int64_t since_ns, budget_ns;
	const void *seen; /* the table that was looked at last */
};

/* As ltable.c has it, from Lua 5.4.3 on. */
static uint64_t hash_float(lua_Number number)
{
	int exponent;
	lua_Number scaled = frexp(number, &exponent) * -(lua_Number)INT_MIN;
	unsigned hash;

	if (!(scaled >= -0x1p63 && scaled < 0x1p63))
		return 0;
	hash = (unsigned)exponent + (unsigned)(lua_Integer)scaled;
	return hash <= INT_MAX ? hash : ~hash;
}

static size_t place_of(lua_State *L, int index, size_t count)
{
	uint64_t hash = lua_isinteger(L, index) ? (uint64_t)lua_tointeger(L, index)
						: hash_float(lua_tonumber(L, index));

	return hash % ((count - 1) | 1);
}

/* The keys share places already: to go through them takes as long as to move them. */
static bool is_slow(const struct places *p, uint64_t keys)
{
	int64_t took_ns;

	if (keys % KEYS_PER_LOOK != 0)
		return false;
	took_ns = machine_clock_ns(CLOCK_THREAD_CPUTIME_ID) - p->since_ns;
	return took_ns > p->budget_ns && took_ns > (int64_t)keys * NEXT_NS;
}

/* The table is on the top. Three slots are used, which the stack always has. */
static bool is_long(lua_State *L, struct places *p)
{
	int table = lua_gettop(L);
	uint64_t keys = 0, steps = 0;
	bool is_over = false;

	p->seen = lua_topointer(L, table);
	memset(p->taken, 0, p->count * sizeof(*p->taken));
	p->since_ns = machine_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (lua_pushnil(L); !is_over && lua_next(L, table); lua_pop(L, 1)) {
		if (lua_type(L, -2) == LUA_TNUMBER)
			steps += p->taken[place_of(L, -2, p->count)]++;
		is_over = steps > p->steps_max || is_slow(p, ++keys);
	}
	lua_settop(L, table);
	return is_over;
}

void rehash_deinit(struct rehash *r)
{
	mem_free(r->blocks);
	*r = (struct rehash){ .count = 0 };
}

bool rehash_is_keys(size_t bytes)
{
	size_t count = bytes / sizeof(struct node);

	return bytes % sizeof(struct node) == 0 && count >= KEYS_MIN &&
	       (count & (count - 1)) == 0;
}

void rehash_add(struct rehash *r, const void *keys, size_t bytes)
{
	r->blocks = mem_realloc(r->blocks, (r->count + 1) * sizeof(*r->blocks));
	r->blocks[r->count++] = (struct rehash_block){ keys, bytes };
}

void rehash_remove(struct rehash *r, const void *keys)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->blocks[i].keys == keys) {
			r->blocks[i] = r->blocks[--r->count];
			return;
		}
}

static uint64_t count_numbers(const struct rehash_block *b)
{
	const struct node *nodes = b->keys;
	uint64_t numbers = 0;

	for (size_t i = 0; i < b->bytes / sizeof(*nodes); i++)
		numbers += (nodes[i].key_type & 0x0f) == LUA_TNUMBER;
	return numbers;
}

/* Some table that may be the one that grows has so many numbers. What has fewer than half
 * of the places has room in them. */
static bool has_numbers(const struct rehash *r, size_t bytes, uint64_t steps_max)
{
	for (size_t i = 0; i < r->count; i++) {
		uint64_t n =
			r->blocks[i].bytes < bytes / 2 ? 0 : count_numbers(&r->blocks[i]);

		if (n * n / 2 > steps_max)
			return true;
	}
	return false;
}

bool rehash_is_long(const struct rehash *r, lua_State *L, void *block, size_t bytes,
		    int64_t budget_ms)
{
	struct places p = {
		.taken = block,
		.count = bytes / sizeof(struct node),
		.steps_max = (uint64_t)budget_ms * STEPS_PER_MS,
		.budget_ns = budget_ms * 1000000,
	};
	bool is_over = false;
	lua_Debug function;

	if (!has_numbers(r, bytes, p.steps_max) || !lua_getstack(L, 0, &function))
		return false;
	/* The function's tables are searched: which of them grows cannot be seen. */
	for (int n = 1; !is_over && lua_getlocal(L, &function, n); n++) {
		is_over = lua_istable(L, -1) && lua_topointer(L, -1) != p.seen &&
			  is_long(L, &p);
		lua_pop(L, 1);
	}
	return is_over;
}
