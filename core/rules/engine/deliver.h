/* deliver.h: the scripts of deliver/: asked before a consumer is given a message.
 *
 * Those that match are asked in the order of their file names. Each sees the headers as
 * those before it have left them. The first that refuses or delays ends that. */
#pragma once

#include "engine.h"

#define DELIVER_REASON_MAX 200

/* The script's `consumer`. */
struct consumer_view {
	struct slice vhost, queue;
	struct slice user, name; /* of the connection; empty: none */
	struct slice address;    /* without a port; likewise */
	const char *protocol;    /* NULL: not known */
	const char *sid;         /* NULL: a GET */
	uint64_t connection;     /* of TRACE alone */
	unsigned channel;
	uint32_t unacked, prefetch; /* 0 of a GET */
};

enum deliver_verdict { DELIVER_GIVE, DELIVER_REFUSE, DELIVER_LATER };
/* "give", "refuse", "delay" */
extern const char *const deliver_verdict_names[];

/* One message for one consumer. */
struct deliver_pass {
	const struct msg *msg;
	uint32_t attempt; /* the number of this delivery */
	bool has_place;   /* it is in a topic, there */
	uint32_t partition;
	uint64_t offset;
	bool keeps_order; /* a script may not refuse it: others would overtake it */
	const struct consumer_view *consumer;
	struct decision_context *context; /* NULL: live */
	int64_t now_unix_ms;

	/* The rest is the answer. */
	enum deliver_verdict verdict;
	int64_t delay_ms; /* DELIVER_LATER */
	char reason[DELIVER_REASON_MAX];
	/* The headers that scripts have written, in a message without a payload; a
	 * reference of the caller's. NULL: nothing was written. */
	struct msg *head;
	/* The script that was asked last, and the line of its function; NULL: there
	 * was none. Good until the next reload. */
	const char *file;
	int line;
};

/* Is there a script for the queue? */
bool deliver_is_used(struct engine *e, struct slice vhost, struct slice queue);
/* TIDE_ERULE: a script has failed; there is no `head`. */
TIDE_MUST_USE int deliver_run(struct engine *e, struct deliver_pass *p,
			      struct error *err);
