/* samples.h: what the broker was doing every few seconds of the last hour: LIST history.
 *
 * A sample has rates since the one before, and what there is now. What queues have
 * together is summed up for it (samples.c), for a few milliseconds at most: with many
 * queues it is of some samples before. */
#pragma once

#include "base/json.h"

struct queue;
struct reply;
struct samples;
struct service;
struct topic_group;

struct samples *samples_create(struct service *s);
void samples_destroy(struct samples *all);
/* In each turn: take a sample when it is time. */
void samples_turn(struct samples *all);
/* When that is, wall clock. */
int64_t samples_due_ms(const struct samples *all);
/* An object: "every_ms", "columns", "rows", the oldest first.
 *
 * @param max  the newest of them; 0: all */
void samples_write(const struct samples *all, uint64_t max, struct json *j);
/* The same of a queue, a topic, or a group of the topic (past.h). */
void samples_write_of(const struct samples *all, const struct queue *q,
		      const struct topic_group *g, uint64_t max, struct json *j);
/* An object: a sample of now, with rates since one that is a second old at least. */
void samples_write_newest(struct samples *all, struct json *j);
