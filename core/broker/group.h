/* group.h: who reads a topic, and how far each has come.
 *
 * A group has a name and committed offsets, which Redis keeps. Its members share the
 * partitions. A reader is a group without a name: it has one member, goes with
 * it, and commits nothing.
 *
 * GETs take from partitions that no member has.
 *
 * What a group does with a partition is a claim (log/claim.h). It is made when the group
 * first wants to read there, and dropped when nobody has the partition, no GET waits and
 * nothing is left but the committed offset. A claim that may have something to give is in
 * the list `ready` of its owner; or of the group, for GETs. One that has nothing waits
 * for the partition's news, for a timer, or for what is held: nothing is done for it in a
 * turn. */
#pragma once

#include "base/duration.h"
#include "base/table.h"
#include "consumer.h"
#include "getter.h"
#include "log/claim.h"
#include "log/cursor.h"
#include "topic.h"
#include "rate.h"

struct broker;
struct topic_group;
struct group_death;
struct group_flight;
struct group_search;
struct member;

/* So many offsets lie between the first that is not settled and the last that was given
 * out, at most. */
#define GROUP_AHEAD_MAX 100000
/* A group has not committed in this partition. */
#define GROUP_UNKNOWN UINT64_MAX

TAILQ_HEAD(group_claim_list, group_claim);
TAILQ_HEAD(topic_group_list, topic_group);
TAILQ_HEAD(member_list, member);
TAILQ_HEAD(group_death_list, group_death);

struct group_claim {
	struct claim claim;
	struct topic_group *group;
	struct partition *partition;
	unsigned index; /* of the partition */
	TAILQ_ENTRY(group_claim) watch_link;
	struct member *owner; /* whose it is; NULL: nobody's */
	TAILQ_ENTRY(group_claim) ready_link;
	bool is_ready;
	/* Somebody else holds messages of it: the owner waits for them. */
	bool is_handover;
	bool is_far_ahead; /* it waits: GROUP_AHEAD_MAX */
	bool is_reading;   /* what comes next is being read, or cannot be just now */
	bool is_dirty;     /* committed has moved, and Redis does not know */
	/* The cursor of records that were never given out, and that of records which
	 * come again. NULL: there are no more now. */
	struct cursor *cursor, *again;
	struct group_search *search;   /* its position is being looked for */
	struct group_death_list dying; /* group_settle.c */
};

struct topic_group {
	UT_hash_handle hh;             /* by name; not of a reader */
	TAILQ_ENTRY(topic_group) link; /* of a reader */
	struct topic *topic;
	char *name; /* NULL: a reader */
	size_t name_len;
	struct member_list members;
	unsigned member_count;
	struct group_claim **claims; /* by partition; NULL: there is none */
	uint64_t *committed;         /* where there is none; GROUP_UNKNOWN */
	int64_t paused_ms; /* until when, wall clock; 0: it is not. See group_pause.h */
	struct trend lag;  /* of session/warnings.h */
	uint64_t given_up; /* messages that failed for good, without a target */
	int64_t given_up_logged_ms;
	int64_t only;             /* the one partition that a reader wants; -1: all */
	struct getter_list pulls; /* GETs that wait, in the order that they came */
	unsigned pull_count, late_pulls;
	struct group_claim_list ready; /* free, while a GET waits: may have something */
	unsigned next_pulled;          /* the partition that a GET takes from first */
};

/* Of a partition: who reads it. */
struct group_watch {
	struct topic *topic;
	unsigned index;
	struct group_claim_list claims;
	bool is_dirty;               /* in group_env.dirty */
	struct group_flight *flight; /* offsets are being written: group.c */
	TAILQ_ENTRY(group_watch) dirty_link;
};

/* Of a topic that somebody reads. */
struct group_set {
	struct topic_group *by_name; /* uthash */
	struct topic_group_list readers;
	struct group_watch *watches; /* of each partition */
};

/* A subscription of a topic: one of a group, which shares its partitions. */
struct member {
	TAILQ_ENTRY(member) link;
	struct topic_group *group;
	struct consumer *consumer;
	struct group_claim_list ready; /* of its partitions: that may have something */
	unsigned number;               /* among the members, of an assignment */
	bool is_changed;               /* it has been told something else, or nothing */
};

/* The hooks of partitions and topics: struct partition_ops, struct topic_hooks. */
void group_hear_news(struct partition *p);
void group_restore(struct partition *p, struct slice name, uint64_t committed);
/* It has more partitions than it had. */
void group_widen_all(struct topic *t, unsigned had);
void group_close_all(struct topic *t);

struct topic_group *group_find(const struct topic *t, struct slice name);
/* TIDE_ELIMIT: it would be one more than a topic may have. */
TIDE_MUST_USE int group_admit(const struct topic *t, struct slice name,
			      struct error *err);
/* The group of that name, made if it is new. */
struct topic_group *group_open(struct topic *t, struct slice name);
/* A group for one member alone. */
struct topic_group *group_create_reader(struct topic *t, int64_t only);
/* Erase a group without members, in Redis too. `waiter` may be NULL. */
void group_erase(struct topic_group *g, struct waiter *waiter);

/* The claim for a partition; NULL: there is none. */
static inline struct group_claim *group_claim(const struct topic_group *g,
					      unsigned partition)
{
	return g->claims[partition];
}
/* The same, made from what the group has committed. */
struct group_claim *group_open_claim(struct topic_group *g, unsigned partition);
/* Where the group is: the first offset that is not settled. GROUP_UNKNOWN. */
uint64_t group_committed(const struct topic_group *g, unsigned partition);
/* It has committed, or reads: `from` says nothing to it any more, also in a partition
 * that is new. */
bool group_has_begun(const struct topic_group *g);
/* The number of partitions. */
unsigned group_width(const struct topic_group *g);
struct broker *group_broker(const struct topic_group *g);

/* GETs may take from it: no member has it, and nothing of it is held (or order is not
 * kept), but by the first of them. */
bool group_is_free(const struct group_claim *gc);
/* There may be something to give out. */
void group_wake(struct group_claim *gc);
/* There is nothing at present. */
void group_rest(struct group_claim *gc);
/* Call when the last held record of a claim is settled, or its owner has gone: the
 * claim goes on, or is freed. */
void group_check(struct group_claim *gc);

/* `paused_ms` has changed: nothing more is given out, or what there is. */
void group_hear_pause(struct topic_group *g);
bool group_is_paused(const struct topic_group *g);

/* `committed` has moved. */
void group_commit_mark(struct group_claim *gc);
/* Write what is due. */
void group_commit_turn(struct broker *b);
/* When it is, wall clock; 0: nothing is to be written. */
int64_t group_commit_due_ms(const struct broker *b);

/* Go on from there, in one partition. What is held is forgotten: its tags are lost. The
 * offset is kept, and written. A position by time is looked for; nothing is given out
 * until it is found. The waiter, unless NULL, is told when Redis has it. */
void group_seek(struct group_claim *gc, const struct position *to, struct waiter *waiter);

/* Messages of a partition that the group has not settled. */
uint64_t group_lag_in(const struct topic_group *g, unsigned partition);
/* Of all partitions together. */
uint64_t group_lag_all(const struct topic_group *g);
/* When the oldest of these was appended, ms since 1970; 0: there is none. Negative: not
 * known, since it is not in memory. */
int64_t group_lag_since(const struct topic_group *g);

/* The consumer, which is in its queue's list, becomes one of the group. */
struct member *member_create(struct topic_group *g, struct consumer *c);
/* The member leaves the group, which may go, too. Records that it holds stay held. */
void member_destroy(struct member *m);
/* The partitions that it has: "0,3", or "-". */
#define MEMBER_PARTITIONS_MAX 256
void member_format(const struct member *m, char out[MEMBER_PARTITIONS_MAX]);

/* Messages that the group has not settled, of its partitions. */
uint64_t member_lag(const struct member *m);

/* Enter the line of the group. The getter has one consumer, which is in the list of its
 * topic (getter_add).
 * @param from  where the group begins, if it has not committed yet; or the reader */
void group_pull_join(struct getter *pull, struct topic_group *g,
		     const struct position *from);
/* Leave it: before getter_remove, and harmless for any getter. The group may go. */
void group_pull_leave(struct getter *pull);

/* Deliver the next message of a topic: as delivery_turn. */
bool group_deliver(struct queue *q);
/* Likewise for a GET that has just joined its line: it, and those before it, are given
 * what is there. False: it was answered, and has gone. */
bool group_deliver_pull(struct getter *pull);
/* As delivery_answer, for such a GET. */
void group_deliver_answer(struct getter *pull);
