/* damage.h: what can be wrong in a store, how it is looked at again, said and mended.
 *
 * One table has all kinds. A kind is confirmed by what Redis answers about the key or
 * the member: by the row of a shard, or by up to four questions. What rows of shards show
 * is mended, since a person can hardly find the messages. */
#pragma once

#include <sys/queue.h>

#include "store/store_walk.h"

enum damage_kind {
	DAMAGE_KEY,       /* no key of the broker */
	DAMAGE_TYPE,      /* of the key */
	DAMAGE_READ,      /* Redis refuses to read it */
	DAMAGE_TTL,       /* Redis would remove it */
	DAMAGE_VHOST,     /* of a table: there is no such vhost */
	DAMAGE_QUEUE,     /* of a shard: there is no such queue, or it has fewer shards */
	DAMAGE_PARTITION, /* the same of a partition of a topic */
	DAMAGE_DAY,       /* of a partition: its state does not name it */
	DAMAGE_BATCH,     /* of record batches: one overlaps, or the next is missing */
	DAMAGE_VALUE,     /* a member or its value cannot be read */
	DAMAGE_LOST,      /* a message in no set */
	DAMAGE_SETS,      /* a message in two sets or more */
	DAMAGE_GONE,      /* a member of a key of a shard, of which there is no message */
	DAMAGE_EXPIRY,    /* a message that expires and is not in `expiry` */
	DAMAGE_BINDING,
	DAMAGE_PAUSE,
	DAMAGE_TOPIC,      /* in one of the sets of topics, and not defined */
	DAMAGE_TOPIC_NAME, /* a definition that the set of topics does not name */
	DAMAGE_TOPIC_SET,  /* or whose set of partitions is not whole */
	DAMAGE_KIND_COUNT,
};

/* How a kind is looked at. */
enum damage_look { DAMAGE_LOOK_NONE, DAMAGE_LOOK_ROW, DAMAGE_LOOK_ASK };

/* A key that is being walked, shared by what is found in it. */
struct damage_key {
	STAILQ_ENTRY(damage_key) link;
	unsigned refs;
	struct layout_name name; /* its slices point into text */
	size_t len;
	char text[];
};

struct damage {
	STAILQ_ENTRY(damage) link;
	enum damage_kind kind;
	struct damage_key *key;
	char *detail;   /* or NULL */
	double score;   /* with which it is mended */
	unsigned found; /* see store_walk_row */
	/* DAMAGE_BATCH: its offsets. DAMAGE_TOPIC_SET: `first` is the last partition. */
	uint64_t first, end;
	bool is_left; /* to the next start of a broker */
	size_t member_len;
	char member[];
};

STAILQ_HEAD(damages, damage);

struct damage_key *damage_key_create(struct slice name);
void damage_key_unref(struct damage_key *key);
static inline struct slice damage_key_slice(const struct damage_key *key)
{
	return (struct slice){ key->text, key->len };
}

/* Takes a reference of the key, copies the texts; `detail` may be NULL. */
struct damage *damage_create(enum damage_kind kind, struct damage_key *key,
			     struct slice member, const char *detail);
/* The same of a DAMAGE_TOPIC_SET. @param definition  of the topic */
struct damage *damage_create_topic_set(struct damage_key *key, struct slice topic,
				       struct slice definition);
void damage_destroy(struct damage *d);
enum damage_look damage_look(enum damage_kind kind);
/* To be asked about each key of that name. */
bool damage_is_of_key(enum damage_kind kind, const struct layout_name *name);

/* The questions about a row of a key of a shard. */
unsigned damage_wanted(enum layout_key key);
/* By bits of store_walk_row.found. */
bool damage_is_in_row(enum damage_kind kind, enum layout_key key, unsigned found);

#define DAMAGE_QUESTIONS 5
/* `texts` gets what the questions point into. */
void damage_ask(const struct damage *d, struct store_walk_question out[DAMAGE_QUESTIONS],
		struct buf texts[DAMAGE_QUESTIONS]);
/* Is the damage still there, as the answers tell? Fills in what is to be said. */
bool damage_is_answered(struct damage *d, const struct store_walk_row *answers);

/* The edits that mend it, for store_walk_edit; `keys` gets what they point into.
 *
 * @return  how many; 0: it is for a person to mend */
#define DAMAGE_EDITS_MAX (STORE_SET_COUNT + 2)
size_t damage_edits(const struct damage *d, struct store_walk_edit *out,
		    struct buf keys[DAMAGE_EDITS_MAX]);

enum damage_fate { DAMAGE_FOUND, DAMAGE_MENDED, DAMAGE_REFUSED };
/* Append one line. `why`: what Redis said when it refused. */
void damage_print(const struct damage *d, enum damage_fate fate, const char *why,
		  struct buf *out);

/* Takes the damage. */
typedef void (*row_check_fn)(void *ctx, struct damage *d);
/* row_check.c: what is wrong with a row of a key, as far as it tells alone. */
void row_check(struct damage_key *key, const struct store_walk_row *row,
	       row_check_fn on_damage, void *ctx);
