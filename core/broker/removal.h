/* removal.h: what is deleted in the broker, until it is deleted in Redis too.
 *
 * Redis is asked again as long as it refuses: what it kept would return with the next
 * start. Who deletes a thing is answered when Redis has deleted it. Until then no queue
 * of that name can be declared, since it would find the old messages. */
#pragma once

#include "store/store.h"

struct broker;
struct waiter;

struct removal_spec {
	enum store_table table;
	const char *kind; /* "queue" */
	struct slice vhost, name;
	unsigned shards; /* of a queue, or partitions of a topic */
	/* It was declared again, and is written to Redis again. */
	bool (*is_back)(struct broker *b, const struct removal_spec *spec);
};

/* The texts are copied. `waiter` may be NULL. */
void removal_send(struct broker *b, const struct removal_spec *spec,
		  struct waiter *waiter);
/* Is Redis asked again to delete a queue or a topic of that name? TIDE_ESTORE */
TIDE_MUST_USE int removal_check(const struct broker *b, struct slice vhost,
				struct slice queue, struct error *err);
/* Ask again, when that is due. */
void removal_turn(struct broker *b);
/* When removal_turn is to be called; 0: nothing was refused. */
int64_t removal_due_ms(const struct broker *b);
/* The store is closed: those who wait are told. */
void removal_clear(struct broker *b);
