/* settled.h: the scripts of settled/: told what has become of a message.
 *
 * All that match are told, in the order of their file names. What they say changes
 * nothing. They may publish copies. */
#pragma once

#include "engine.h"
#include "rules/api/draft.h"

enum settled_event {
	SETTLED_ACK,
	SETTLED_RETRY, /* it comes again, at once or later */
	SETTLED_EXPIRED,
	SETTLED_DEAD_LETTER,
	SETTLED_BURY,
	SETTLED_DROP,
};
/* "ack" "retry" "expired" "dead-letter" "bury" "drop", then NULL: script_kind.c */
extern const char *const script_kind_events[];

/* The script's `outcome`. */
struct outcome_view {
	enum settled_event event;
	const char *reason; /* "nack", …; NULL: none */
	const char *rule;   /* who says so; NULL: nobody */
	struct slice vhost, queue;
	struct slice user;  /* of the consumer; empty: none, or nobody held it */
	struct slice group; /* for which it is settled; empty: it is of a queue */
	uint32_t partition; /* of a message of a topic, as offset */
	uint64_t offset;
	uint32_t attempts; /* deliveries */
	uint32_t failures; /* with this one */
	int64_t waited_ms; /* from when it could be had to its last delivery */
	int64_t took_ms;   /* from then on; 0: nobody held it */
};

/* The deed of one script. No copy is published when a script fails. */
struct settled_step {
	const char *file;
	int line;
	enum settled_event event;
	unsigned copies;
	const struct error *failure; /* code 0: none */
};

struct settled_pass {
	const struct msg *msg;
	const struct outcome_view *outcome;
	struct decision_context *context; /* NULL: live */
	int64_t now_unix_ms;

	/* In: max; out: references, without ids. */
	struct draft_copies copies;
	/* Each that was told. May be NULL. */
	void (*on_step)(void *ctx, const struct settled_step *step);
	void *ctx;
};

/* Is there a script for the queue? */
bool settled_is_used(struct engine *e, struct slice vhost, struct slice queue);
void settled_run(struct engine *e, struct settled_pass *p);
