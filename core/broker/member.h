/* member.h: a subscription of a topic: one of a group.
 *
 * The members of a group share its partitions: each has one member (log/assign.h), which
 * is told what it has. A partition that changes hands is read on when nothing of it is
 * held any more. A GET that waits is a member, too, of the partitions that are free. */
#pragma once

#include "consumer.h"
#include "group.h"

struct member {
	TAILQ_ENTRY(member) link;
	struct topic_group *group;
	struct consumer *consumer;
	struct group_claim_list ready; /* of its partitions: that may have something */
	unsigned number;               /* among the members, of an assignment */
	bool is_changed;               /* it has been told something else, or nothing */
	bool is_pull;                  /* a GET */
	bool is_short; /* which waits for nothing but what is being read */
	size_t bytes;  /* that it was given */
};

/* The consumer, which is in its queue's list, becomes one of the group. */
struct member *member_create(struct topic_group *g, struct consumer *c);
/* The consumer of a GET takes from partitions that no member has and nobody holds
 * anything of, until it is answered. With order=0 others may hold something. */
struct member *member_create_pull(struct topic_group *g, struct consumer *c,
				  bool is_short);
/* Nobody has the partition: the first GET that waits gets it. */
void member_offer(struct group_claim *gc);
/* What it may be given is being read, or looked for. */
bool member_is_reading(const struct member *m);
/* It leaves the group, which may go, too. What it holds stays held. */
void member_destroy(struct member *m);
/* It has something that may be given out. */
void member_wake(struct member *m);
/* It has nothing more. */
void member_rest(struct member *m);

/* The partitions that it has: "0,3", or "-". */
#define MEMBER_PARTITIONS_MAX 256
void member_format(const struct member *m, char out[MEMBER_PARTITIONS_MAX]);
