/* lapsed.h: what a channel held until a lease ended: a late ACK may still count.
 *
 * The work was done, so an ACK that comes while the message is back in its queue, or with
 * the same channel again, acknowledges it (session_late.h). For that the channel
 * remembers which message it had by which tag: of the last LAPSED_MAX of them. */
#pragma once

#include <bsd/sys/tree.h>

#include "broker/lease.h"

#define LAPSED_MAX 10000

struct lapsed_item {
	RB_ENTRY(lapsed_item) by_tag;
	uint64_t tag;
	uint64_t queue;  /* its serial; 0: the message was acknowledged by a late ACK */
	uint64_t id;     /* of a message of a queue; 0: it is of a topic */
	uint64_t offset; /* there */
	unsigned partition; /* likewise */
	char group[];       /* likewise */
};

RB_HEAD(lapsed_tree, lapsed_item);

struct lapsed {
	struct lapsed_tree items;
	unsigned count;
};

void lapsed_init(struct lapsed *l);
void lapsed_deinit(struct lapsed *l);
void lapsed_add(struct lapsed *l, const struct lapse *what);
/* A late ACK has acknowledged the message that the channel has by that tag by now. */
void lapsed_add_done(struct lapsed *l, uint64_t tag);
/* The first one with that tag, or behind it; NULL: there is none. */
struct lapsed_item *lapsed_from(struct lapsed *l, uint64_t tag);
void lapsed_remove(struct lapsed *l, struct lapsed_item *item);
