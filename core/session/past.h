/* past.h: what single queues, topics and groups were doing in the last hour: LIST
 * history with a queue named.
 *
 * Only those at work have rows: something was published or delivered in the last
 * hour. The store is bounded: PAST_MAX of them, about 9 MB. Beyond that the one that
 * has rested the longest makes room; while all are at work, a further one has none. A
 * past belongs to a name: it stays if the thing is deleted, until its hour is over. */
#pragma once

#include "base/json.h"

struct broker;
struct queue;
struct past_set;
struct topic_group;

#define PAST_MAX 1000
#define PAST_EVERY_MS 10000

struct past_set *past_create(void);
void past_destroy(struct past_set *set);
/* All queues are about to be met. False: it is too early for the next rows. */
bool past_begin(struct past_set *set, const struct broker *b);
/* The queue or topic is met: a row for it, and for its groups. */
void past_note(struct past_set *set, const struct queue *q);
/* An object as samples_write gives.
 *
 * @param g    of the topic; NULL: of the queue or topic itself
 * @param max  the newest rows; 0: all */
void past_write(const struct past_set *set, const struct queue *q,
		const struct topic_group *g, uint64_t max, struct json *j);
