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
