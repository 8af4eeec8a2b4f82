/* member.h: a subscription of a topic: one of a group.
 *
 * The members of a group share its partitions: each has one member (log/assign.h), which
 * is told what it has. A partition that changes hands is read on when nothing of it is
 * held any more. */
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
};

/* The consumer, which is in its queue's list, becomes one of the group. */
struct member *member_create(struct topic_group *g, struct consumer *c);
/* The member leaves the group, which may go, too. Records that it holds stay held. */
void member_destroy(struct member *m);

/* The partitions that it has: "0,3", or "-". */
#define MEMBER_PARTITIONS_MAX 256
void member_format(const struct member *m, char out[MEMBER_PARTITIONS_MAX]);
