/* redis_replay.h: what a master was written lately, so that a replica which is promoted
 * in its place can be given what it lacks.
 *
 * Replication is one order, of which a replica has a prefix. Behind each write goes a
 * command that counts it (redis_holder.h), so the count that a promoted replica has tells
 * which writes it lacks. They are sent again, in order, before anything else. Each can be
 * carried out twice, which it is if the prefix ends between a write and its count.
 *
 * While the master has replicas, a copy of each write that was answered is kept until all
 * of them have it: INFO tells how far each is. A promoted replica that refuses one is
 * asked again while the refusal can pass (OOM); else the broker reads anew what is there.
 * A log that is full forgets the oldest; it does not reach then, and the broker has to
 * read anew what is there. So it has if Redis refused a part of a write that is missing.
 */
#pragma once

#include "base/slice.h"
#include "redis_request.h"

#define REDIS_REPLAY_BYTES_MAX ((size_t)64 << 20)

struct replayed_write;
TAILQ_HEAD(replayed_writes, replayed_write);

/* Where the log and the offset of replication were at one moment. */
struct replay_mark {
	uint64_t number;
	uint64_t offset;
};
#define REPLAY_MARKS_MAX 32
/* In beats: ten minutes. */
#define REPLAY_LOOKS_MAX 1200

struct redis_replay {
	bool is_on; /* there are replicas, or were */
	struct replayed_writes writes;
	size_t bytes;
	uint64_t last;    /* number of the last write that was answered */
	uint64_t missing; /* of those that are not in the log, the last; 0: none */
	struct replay_mark marks[REPLAY_MARKS_MAX];
	unsigned mark_count;
	unsigned replicas;                      /* as INFO told last */
	unsigned replicas_known, looks_without; /* see has_lost_one */
	uint64_t lag;                           /* bytes that the slowest of them lacks */
};

void redis_replay_init(struct redis_replay *p);
void redis_replay_deinit(struct redis_replay *p);
/* A write was answered. @param number  that it was counted by; 0: it was not, so it
 * stands before the next one that is */
void redis_replay_add(struct redis_replay *p, const struct redis_request *r,
		      uint64_t number);
/* INFO replication, asked behind everything that is in the log. */
void redis_replay_info(struct redis_replay *p, struct slice info);
/* Another master: offsets of the one before say nothing. */
void redis_replay_begin(struct redis_replay *p);
/* Writes are counted by another record now, which stands at `number`: nobody knows any
 * more which of those in the log the master has, and all are to be sent again. */
void redis_replay_restart(struct redis_replay *p, uint64_t number);
/* Does the log have all writes above `number`? */
bool redis_replay_reaches(const struct redis_replay *p, uint64_t number);
/* Is there one above `number` in the log? */
bool redis_replay_has_above(const struct redis_replay *p, uint64_t number);
/* Requests for the writes above `number`, in order, for the front of those that wait.
 * They are the log's, and out of it: they come back when they are answered. What is not
 * above stays: replicas of this master may lack it. Gives how many. */
unsigned redis_replay_take(struct redis_replay *p, uint64_t number,
			   struct redis_requests *out);
/* Forget everything: the broker reads anew. */
void redis_replay_clear(struct redis_replay *p);
/* Forget the writes to the slots of which `has` says no. */
void redis_replay_keep(struct redis_replay *p, bool (*has)(void *ctx, unsigned slot),
		       void *ctx);
