/* definition.h: what an exchange, a queue and a binding have in common.
 *
 * Each embeds a definition. A durable one exists in the broker at once, and in Redis a
 * moment later. Who declares it, first or again, is answered when Redis has it. When
 * Redis refuses it, it is deleted. */
#pragma once

#include <sys/queue.h>

#include "ruleset.h"
#include "store/store.h"

struct broker;
struct definition;
struct terms;
struct vhost;
struct waiter;

LIST_HEAD(definition_jobs, definition_job);

/* A request to Redis about a definition, which may be deleted before the answer. */
struct definition_job {
	LIST_ENTRY(definition_job) link;
	STAILQ_ENTRY(definition_job) follower_link; /* it waits for a removal */
	struct definition *definition;              /* NULL: deleted */
	struct waiter *waiter;                      /* or NULL */
};

/* A DECLARE that waits for its turn. */
struct definition_wait {
	STAILQ_ENTRY(definition_wait) link;
	/* Called when its turn has come; perhaps another must wait behind it. NULL:
	 * the definition was deleted before. The waiter may free itself. */
	void (*run)(struct definition_wait *w, struct definition *d);
};

struct definition {
	enum store_table table; /* it is a queue, a topic, an exchange or a binding */
	bool is_stored;         /* Redis has it */
	bool is_unreadable;     /* what Redis has; of an exchange, or of a binding */
	bool is_recovering;     /* a queue that can be used in a moment */
	char *unusable;         /* why it cannot be used; NULL: it can be: unusable.h */
	struct definition_jobs jobs;    /* requests that Redis has not answered */
	const struct terms *next_terms; /* an update is on its way to Redis; else NULL */
	struct definition_line *line;   /* of DECLAREs that wait; NULL: none does */
};

/* A thing that is to be removed from Redis. */
struct removal_spec {
	enum store_table table;
	const char *kind; /* "queue" */
	struct slice vhost, name;
	unsigned shards; /* of a queue, or partitions of a topic */
	/* Was the thing declared again, and written to Redis again? NULL for a queue: its
	 * next definition is written behind the removal. */
	bool (*is_back)(struct broker *b, const struct removal_spec *spec);
};

/* Call when the definition is deleted: a later answer of Redis about it is ignored. */
void definition_deinit(struct definition *d);

/* "queue" */
const char *definition_kind(enum store_table table);
/* Is the definition a struct queue: that of a queue, or of a topic? */
static inline bool definition_is_queue(enum store_table table)
{
	return table == STORE_QUEUES || table == STORE_TOPICS;
}
struct vhost *definition_vhost(const struct definition *d);
/* Ends with a zero byte. */
struct slice definition_name(const struct definition *d);

/* Write it to Redis if it is durable and not there. Adds to `waiter` what it has to wait
 * for. It may be NULL. */
void definition_send(struct definition *d, struct waiter *waiter);
/* The options of an exchange, a queue or a topic. */
struct terms *definition_terms(const struct definition *d);
/* Note the job with the definition, and end it: NULL when that was deleted meanwhile. */
void definition_begin(struct definition *d, struct definition_job *job);
struct definition *definition_end(struct definition_job *job);
/* Write a durable one to Redis with these options, whatever it has. */
void definition_write(const struct definition *d, const struct terms *terms,
		      store_done_fn on_done, void *ctx);
/* Redis lacks definitions that it has confirmed: write again all that it had. */
void definition_write_all(const struct broker *b);
/* Must a change of options wait? Redis has not answered about the last DECLARE, or a
 * queue's messages are being read; or others wait for that.
 *
 * @param is_its_turn  it has waited: definition_wait */
bool definition_is_busy(const struct definition *d, bool is_its_turn);
/* Wait behind the others for one that is busy. It runs from the loop, in their order.
 * False: it is not busy, or too many wait. */
TIDE_MUST_USE bool definition_wait(struct definition *d, struct definition_wait *w);
/* Would it be written to Redis? It outlives a restart; a binding does when both its ends
 * do. */
bool definition_is_durable(const struct definition *d);
/* Perhaps it is busy no more. */
void definition_settled(struct definition *d);
/* Remove it from Redis if it is durable, with the messages of a queue. `waiter` may be
 * NULL. */
void definition_remove(const struct definition *d, struct waiter *waiter);

/* Of exchanges and queues: have the scripts of a ruleset work for it. The text of an
 * error is as unusable_set wants it, and nothing is attached then. */
TIDE_MUST_USE int definition_attach(struct definition *d, const struct ruleset *r,
				    struct error *err);
/* Take everything from the scripts of a ruleset, before its engine is closed. */
void definition_detach_all(const struct broker *b, enum ruleset_slot slot);
bool definition_is_attached(const struct definition *d, enum ruleset_slot slot);
/* Attached to the active rules, and not yet to these. */
bool definition_needs(const struct definition *d, enum ruleset_slot slot);
/* Attach it to all candidate rules that it needs. */
void definition_follow(struct definition *d);

/* Visit the exchanges and queues of each vhost, until `visit` returns false. */
bool definition_each(const struct broker *b,
		     bool (*visit)(void *ctx, struct definition *d), void *ctx);

/* ---- removals: a request that Redis refuses is repeated ---------------------------- */

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
