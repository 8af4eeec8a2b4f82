/* journal.h: group commit: what shards changed, written a flush at a time.
 *
 * Shards with dirty entries queue up here. At the end of a turn without a flush under
 * way, each of them sends its dirty entries as one batch. The next flush gathers
 * meanwhile: the slower Redis is, the larger are the batches, and the more messages are
 * acknowledged before they are written. Those are never written.
 *
 * A refused write fails its publishes. Moves and removals are tried again later. */
#pragma once

#include "base/tally.h"
#include "shard.h"

struct journal;

struct journal_stats {
	uint64_t flushes;
	uint64_t inserted;    /* messages written */
	uint64_t removed;     /* messages removed from Redis */
	uint64_t elided;      /* messages that were done with before they were written */
	uint64_t refused;     /* publishes that Redis refused */
	struct tally changes; /* of messages, in each flush; in tally_sizes */
	char last_error[ERROR_TEXT_MAX]; /* "" when the last flush went well */
};

struct journal *journal_create(struct shard_env *env);
/* No flush may be under way. */
void journal_destroy(struct journal *j);

/* The shard has a dirty entry. */
void journal_add(struct journal *j, struct shard *sh);
/* Take a shard out, which has no dirty entries any more. */
void journal_drop(struct journal *j, struct shard *sh);
/* Write what is dirty, if no flush is under way. */
void journal_flush(struct journal *j);
/* A flush now would be small, and hold messages that consumers are working on. */
bool journal_is_light(const struct journal *j);
/* Is no entry dirty or under way? */
bool journal_is_idle(const struct journal *j);
/* When a refused flush is to be tried again; 0 when none is waiting. */
int64_t journal_retry_unix_ms(const struct journal *j);
/* The payloads of the shards that wait for one lane. */
size_t journal_waiting_bytes(const struct journal *j, unsigned lane);
const struct journal_stats *journal_stats(const struct journal *j);

/* The last place in a set from which the batch under way takes a message: a refusal puts
 * it back there. False: there is none. */
bool journal_last_old_place(const struct shard *sh, enum store_set set,
			    struct place *last);

/* Tell all who wait for a write of the shard that it failed: the shard is about to be
 * closed, and Redis is read anew. */
void journal_fail_waiters(struct shard *sh, const char *text);

/* Tell each entry that the batch under way names. */
void journal_each_flying(const struct shard *sh,
			 void (*tell)(void *ctx, const struct entry *e), void *ctx);

/* Fill in the ids of the batch under way that are OWED_UNSURE; returns how many. There
 * is room for the whole flight. */
size_t journal_flying_unsure(const struct shard *sh, uint64_t *ids);

void journal_count_elided(struct journal *j);
