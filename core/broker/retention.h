/* retention.h: what a topic does not keep: retention=, retention-bytes=, retention-count=
 * and keep-unread= of DECLARE.
 *
 * By age whole days go, once all of a day is old enough; by count single messages; by
 * bytes whole batches. All partitions are looked at when the broker starts and when a
 * minute of the wall clock begins, some in a turn; one that has grown over a limit of
 * bytes or count by a sixteenth is looked at soon. Nothing is done for others.
 *
 * Redis is asked for 64 things at a time. What it refuses to drop is asked for again with
 * the next minute; nobody reads it meanwhile. */
#pragma once

#include "topic.h"

struct broker;
struct retention;

struct retention *retention_create(struct broker *b);
/* No topic is left. */
void retention_destroy(struct retention *r);
/* It has more partitions than it had. */
void retention_widen(struct topic *t, unsigned had);
/* The topic goes. */
void retention_forget(struct topic *t);
/* Call when the topic is to keep more, or less, than before. */
void retention_renew(struct topic *t);

/* For struct partition_ops. */
void retention_on_growth(struct partition *p);

/* The hold of keep-unread on a partition, as the last look found it. */
struct retention_hold {
	struct slice group; /* that is the furthest behind */
	int64_t since_ms;
	uint64_t messages; /* that would have been dropped */
};
/* NULL: nothing. */
const struct retention_hold *retention_hold(const struct topic *t, unsigned index);

void retention_turn(struct broker *b);
/* When it is to be called, wall clock; 0: there is no topic. */
int64_t retention_due_ms(const struct broker *b);
