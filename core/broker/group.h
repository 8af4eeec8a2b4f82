/* group.h: who reads a topic, and how far each has come.
 *
 * A group has a name and committed offsets, which Redis keeps. Its members share the
 * partitions: member.h. A reader is a group without a name: it has one member, goes with
 * it, and commits nothing.
 *
 * GETs take from partitions that no member has: pull.h.
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
#include "trend.h"
#include "log/claim.h"
#include "log/cursor.h"
#include "getter.h"
#include "topic.h"

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
	struct group_death_list dying; /* group_death.h */
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
	struct trend lag;            /* of session/warnings.h */
	uint64_t given_up;           /* messages that failed for good, without a target */
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
	struct group_flight *flight; /* offsets are being written: group_commit.c */
	TAILQ_ENTRY(group_watch) dirty_link;
};

/* Of a topic that somebody reads. */
struct group_set {
	struct topic_group *by_name; /* uthash */
	struct topic_group_list readers;
	struct group_watch *watches; /* of each partition */
};

/* The hooks of partitions and topics: struct partition_ops, struct topic_hooks. */
void group_hear_news(struct partition *p);
void group_restore(struct partition *p, struct slice name, uint64_t committed);
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
/* A reader's only member has gone, or the last one of a group, or the last GET: what
 * nobody needs goes; perhaps the group. */
void group_left(struct topic_group *g);

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
