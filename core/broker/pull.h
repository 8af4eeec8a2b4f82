/* pull.h: a GET of a topic: it takes messages of one partition, once.
 *
 * The GETs of a group stand in one line. The first gets what the next free partition has:
 * one that no member has and of which nobody holds anything. So several clients that pull
 * work side by side, each on a partition of its own, in order. While no partition is free
 * they wait: for an ack, for a member that leaves, for news of a partition. Nothing is
 * done for them in a turn.
 *
 * A GET without a group is the only one of a reader, of one partition. */
#pragma once

#include "group.h"

/* Enter the line of the group. The getter has one consumer, which is in the list of its
 * topic (getter_add).
 * @param from  where the group begins, if it has not committed yet; or the reader */
void pull_join(struct getter *pull, struct topic_group *g, const struct position *from);
/* Leave it: before getter_remove, and harmless for any getter. The group may go. */
void pull_leave(struct getter *pull);
/* A member gets the partition: a GET that waits for more of it ends with what it has. */
void pull_lose(const struct group_claim *gc);
/* The time of a pull is over. True: it waits on, since messages for it are being
 * read, for GETTER_READ_MS at most. */
bool pull_stay(struct getter *pull);
/* The group has nothing at present: those who wait for a read end, unless there is one.
 */
void pull_end_late(struct topic_group *g);
