/* traced.h: the messages that TRACE follows: by their ids, and by their places in topics.
 */
#pragma once

#include <sys/queue.h>

#include "base/id_table.h"
#include "base/table.h"
#include "broker/watcher.h"

/* A message that is followed lies in a topic, or is read from there. */
struct traced_place {
	UT_hash_handle hh;
	uint64_t key[3]; /* serial of the topic, partition, offset */
	struct traced *followed;
	struct traced_place *next; /* of the same message */
};

struct traced {
	TAILQ_ENTRY(traced) link;
	uint64_t id;
	uint64_t began_ns;
	unsigned traces; /* who follows it: a bit each */
	struct traced_place *places;
};

TAILQ_HEAD(traced_list, traced);

struct traced_set {
	struct traced_list list;
	struct id_table by_id;
	struct traced_place *places; /* uthash */
};

void traced_init(struct traced_set *t);
/* Nothing is followed any more. */
void traced_deinit(struct traced_set *t);

/* NULL: it is not followed. */
struct traced *traced_find(const struct traced_set *t, uint64_t id);
/* From now on also by these. */
struct traced *traced_follow(struct traced_set *t, uint64_t id, unsigned traces);
/* A copy of one that is followed. */
void traced_follow_copy(struct traced_set *t, uint64_t id, const struct traced *f);
void traced_unfollow(struct traced_set *t, struct traced *f);

struct traced_place *traced_find_place(const struct traced_set *t,
				       const struct record_place *at);
void traced_note_place(struct traced_set *t, struct traced *f,
		       const struct record_place *at);
