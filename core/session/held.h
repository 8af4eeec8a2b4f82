/* held.h: what a channel holds: delivery tags and the entries behind them.
 *
 * Tags are given in order, so the table is an array sorted by tag; what is
 * taken out leaves a gap, and the gaps are squeezed out when the array is full
 * and half of it is gaps. One message held for ever thus costs one slot, not
 * one for each that came after it. A gap knows how far it is to a later item,
 * and whoever has walked over gaps notes in each how far that came: a client may
 * ask for the same ones again and again. */
#pragma once

#include "broker/lease.h"
#include <bsd/sys/tree.h>
#include "shard/entry.h"

struct held_item {
	uint64_t tag;
	uintptr_t what; /* an entry, and two if it is marked; or a gap: twice the way to
			   go on, and one */
};

struct held {
	struct held_item *items;
	/* The first and the last item between the two are no gaps. */
	size_t start;
	size_t end;
	size_t cap;
	size_t count;
	uint64_t last_tag; /* the last one given out; 0 = none yet */
};

void held_init(struct held *h);
void held_deinit(struct held *h);
/* The new entry's tag, which is also noted in it. */
uint64_t held_add(struct held *h, struct entry *e);
void held_remove(struct held *h, uint64_t tag);
/* The first entry with a tag of at least `tag`, or NULL. */
struct entry *held_from(const struct held *h, uint64_t tag);
/* The one with the highest tag, or NULL. */
struct entry *held_last(const struct held *h);
/* A transaction of the channel is to settle it, or not any more. Harmless when the tag is
 * not held. */
void held_mark(struct held *h, uint64_t tag, bool is_marked);
bool held_is_marked(const struct held *h, uint64_t tag);

/* The messages that a channel held until a lease ended: a late ACK may still count.
 *
 * The work was done, so an ACK that comes while the message is back in its queue, or with
 * the same channel again, acknowledges it (session_late.h). For that the channel
 * remembers which message it had by which tag: of the last LAPSED_MAX of them. */

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
