/* payers.h: who holds how much of a dictionary that is bounded: each script, and of that
 * each vhost that it works for.
 *
 * A script may hold seven eighths of what other scripts leave, and for one vhost six
 * sevenths of what its other vhosts leave of that. One alone has three quarters of all.
 * Whoever comes first leaves something for all others, and no script has all, however
 * many vhosts clients make. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"
#include "base/table.h"

struct payer {
	UT_hash_handle hh;
	struct payer *whole;   /* the script, for all vhosts; NULL: it is that */
	size_t entries, bytes; /* without any it is forgotten */
	size_t key_len;
	char key[]; /* the file; and a zero, the vhost */
};

struct payers {
	struct payer *table; /* uthash */
};

/* For the script in the vhost; made if it is new. */
struct payer *payers_open(struct payers *all, const char *file, struct slice vhost);
/* It holds so many more bytes, or fewer, and an entry more, as many or fewer. One that
 * holds none any more is freed. */
void payers_add(struct payers *all, struct payer *p, int entries, int64_t bytes);

/* Of entries, or of bytes. */
struct payers_room {
	size_t held;  /* by the script for the vhost */
	size_t share; /* that it may hold now */
};

struct payers_total {
	size_t entries, entries_max, bytes, bytes_max; /* of the dictionary */
};

struct payers_rooms {
	struct payers_room entries, bytes;
};
void payers_read(const struct payers *all, const char *file, struct slice vhost,
		 const struct payers_total *total, struct payers_rooms *out);

static inline const char *payers_file(const struct payer *p)
{
	return p->key;
}

static inline struct slice payers_vhost(const struct payer *p)
{
	size_t file_len = strlen(p->key) + 1;

	return (struct slice){ p->key + file_len, p->key_len - file_len };
}
