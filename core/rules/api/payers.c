#include "payers.h"

#include <string.h>

#include "base/mem.h"

#define KEY_BYTES_MAX 512

/* A script for all vhosts has no zero at the end. */
static size_t make_key(char out[KEY_BYTES_MAX], const char *file, struct slice vhost)
{
	size_t len = strlen(file) + 1;

	memcpy(out, file, len);
	if (vhost.len)
		memcpy(out + len, vhost.data, vhost.len);
	return len + vhost.len;
}

static struct payer *find(const struct payers *all, const char *key, size_t len)
{
	struct payer *p;

	HASH_FIND(hh, all->table, key, len, p);
	return p;
}

static struct payer *obtain(struct payers *all, const char *key, size_t len)
{
	struct payer *p = find(all, key, len);

	if (p)
		return p;
	p = mem_zalloc(sizeof(*p) + len + 1);
	p->key_len = len;
	memcpy(p->key, key, len);
	HASH_ADD_KEYPTR(hh, all->table, p->key, p->key_len, p);
	return p;
}

struct payer *payers_open(struct payers *all, const char *file, struct slice vhost)
{
	char key[KEY_BYTES_MAX];
	size_t len = make_key(key, file, vhost);
	struct payer *p = obtain(all, key, len);

	if (!p->whole)
		p->whole = obtain(all, key, strlen(file));
	return p;
}

static void add(struct payers *all, struct payer *p, int entries, int64_t bytes)
{
	p->entries += (size_t)entries;
	p->bytes += (size_t)bytes;
	if (p->entries > 0)
		return;
	HASH_DELETE(hh, all->table, p);
	mem_free(p);
}

void payers_add(struct payers *all, struct payer *p, int entries, int64_t bytes)
{
	struct payer *whole = p->whole;

	add(all, p, entries, bytes);
	add(all, whole, entries, bytes);
}

/* All but one part of so many, rounded up: all of a tiny one. */
static size_t all_but_one(size_t n, size_t parts)
{
	return n / parts * (parts - 1) + n % parts;
}

struct holding {
	size_t held, by_script, used, max;
};

static struct payers_room room_of(const struct holding *u)
{
	size_t others = u->used - u->by_script;
	size_t of_script = u->max > others ? all_but_one(u->max - others, 8) : 0;
	size_t other_vhosts = u->by_script - u->held;

	return (struct payers_room){
		.held = u->held,
		.share = of_script > other_vhosts
				 ? all_but_one(of_script - other_vhosts, 7)
				 : 0,
	};
}

void payers_read(const struct payers *all, const char *file, struct slice vhost,
		 const struct payers_total *total, struct payers_rooms *out)
{
	static const struct payer none;
	char key[KEY_BYTES_MAX];
	size_t len = make_key(key, file, vhost);
	const struct payer *p = find(all, key, len), *whole;

	whole = p ? p->whole : find(all, key, strlen(file));
	if (!p)
		p = &none;
	if (!whole)
		whole = &none;
	out->entries = room_of(&(struct holding){ p->entries, whole->entries,
						  total->entries, total->entries_max });
	out->bytes = room_of(&(struct holding){ p->bytes, whole->bytes, total->bytes,
						total->bytes_max });
}
