/* journal.h: group commit: what shards changed, written a flush at a time.
 *
 * Shards whose entries are dirty queue up here. At the end of a loop turn,
 * when no flush is under way, each of them turns its dirty entries into one
 * batch; while those batches are on their way the next flush gathers. So the
 * slower Redis is, the larger the batches, and the more messages are
 * acknowledged before they would have been written, which then never are.
 *
 * A write that Redis refuses fails the publishes that it was for; moves and
 * removals are put back and tried again a little later. */
#ifndef TIDE_SHARD_JOURNAL_H
#define TIDE_SHARD_JOURNAL_H

#include "shard.h"

struct journal;

struct journal_stats {
	uint64_t flushes;
	uint64_t inserted; /* messages written */
	uint64_t removed;  /* messages removed from Redis */
	uint64_t elided;   /* messages that were done with before they were written */
	uint64_t refused;  /* publishes that Redis refused */
	char last_error[ERROR_TEXT_MAX]; /* "" when the last flush went well */
};

struct journal *journal_create(struct shard_env *env);
/* No flush may be under way. */
void journal_destroy(struct journal *j);

/* The shard has a dirty entry. */
void journal_add(struct journal *j, struct shard *sh);
/* It has none any more. */
void journal_drop(struct journal *j, struct shard *sh);
/* Write what is dirty, if no flush is under way. */
void journal_flush(struct journal *j);
/* A flush would leave now, it would be a small one, and among its messages are such
 * as consumers are at work on. */
bool journal_is_light(const struct journal *j);
/* Nothing is dirty or under way. */
bool journal_is_idle(const struct journal *j);
/* When a refused flush is to be tried again; 0 when none is waiting. */
int64_t journal_retry_unix_ms(const struct journal *j);
const struct journal_stats *journal_stats(const struct journal *j);

/* The last place in a set that a batch under way has taken a message from: when
 * it is refused the message is there again. False when there is none. */
bool journal_last_old_place(const struct shard *sh, enum store_set set,
			    struct place *last);

void journal_count_elided(struct journal *j);

#endif
