#include "account.h"

#include <string.h>

#include "base/mem.h"

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
	if (HASH_COUNT(*table) >= ACCOUNTS_MAX && vhost.len > 0)
		return account_open(table, file, (struct slice){ "", 0 });
	return create(table, key, len);
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

size_t account_sum(const struct account *table, const char *file)
{
	size_t bytes = 0;

	for (; table; table = table->hh.next)
		if (strcmp(table->file, file) == 0)
			bytes += table->bytes;
	return bytes;
}

void account_settle(struct account *table)
{
	for (; table; table = table->hh.next)
		if (table->granted > table->bytes)
			table->granted = table->bytes;
}
