/* redrive.h: dead letters go back where they came from.
 *
 * The ready messages of a queue are searched, in rounds. Each that matches goes by a move
 * (move.h): a copy with no attempts yet, which keeps its headers, and the message is
 * removed when the copy is durable. The queue where it died gets it without a route, or
 * it is published once more. What dies again meanwhile has a new id, and is not
 * sent back a second time. */
#pragma once

#include "access/subject.h"
#include "queue_scan.h"

struct redrive {
	/* The caller's. */
	struct msg_match match;
	char *exchange; /* where to; NULL: as the headers of each message say */
	char *key;      /* with an exchange; NULL: likewise */
	bool is_routed; /* without one: by its exchange, not into the queue alone */
	uint64_t max;   /* messages to send back */
	struct subject subject; /* who asks for it, and must be allowed to publish them */
	/* `err`, when its code < 0, says what it has ended by. The call frees it. */
	void (*on_end)(struct redrive *r);

	uint64_t moved;
	uint64_t left; /* that matched, and stay where they are */
	struct error err;

	/* The rest is its own. */
	struct queue_scan scan;
	struct job job;
	struct waiter waiter; /* of a round: the search, and the moves */
	struct vhost *vhost;
	struct broker *broker;
	uint64_t serial;    /* of the queue */
	uint64_t newest_id; /* when it began */
	struct place next;  /* where the search goes on */
	unsigned started;   /* moves of the round */
	unsigned open;      /* of these, those under way */
	unsigned asked;     /* messages of the round that are taken from Redis first */
	STAILQ_HEAD(, redrive_ask) asks;
	bool is_whole;    /* all have been looked at */
	struct error why; /* the last message that stays, stays */
};

void redrive_start(struct redrive *r, struct queue *q);
