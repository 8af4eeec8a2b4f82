/* move.h: a message goes elsewhere: a copy of it is published, and the message stays
 * until the copy is durable. A crash in between leaves both. */
#pragma once

#include "base/error.h"
#include "shard/entry.h"

struct draft_copies;
struct queue;
struct subject;
struct vhost;
struct waiter;

struct move_ops {
	/* There is no copy, for this reason; the text is good for the call. on_end
	 * follows. Not when the queue is gone. */
	void (*on_refused)(void *ctx, int status, const char *text);
	/* The copy is durable, or was refused (status < 0). The message is still here,
	 * in no state; the call removes it or puts it back. NULL: its queue is gone. */
	void (*on_end)(void *ctx, struct entry *e, int status);
};

struct move_target {
	struct subject *subject; /* who must be allowed to; NULL: the broker itself */
	struct queue *queue;     /* it alone; NULL: the exchange that the copy names */
};

/* Publish `copy` to the target, and take the message out of circulation. Nobody holds it.
 * A copy that no queue takes is refused, TIDE_EEXISTS if they have its publish id. The
 * calls may come before this returns. Gives what publish_message gives. */
int move_start(struct entry *e, struct msg *copy, const struct move_target *to,
	       const struct move_ops *ops, void *ctx);

/* Publish what a script has copied, and take the message out of circulation until all of
 * it is durable. Nobody holds it, or no longer. A copy that nobody takes is lost; what
 * Redis refuses is told as `status` of on_end. */
void move_copies(struct entry *e, struct draft_copies *copies_take,
		 const struct move_ops *ops, void *ctx);

/* The copy alone: the broker publishes it to the exchange that it names. */
TIDE_MUST_USE int move_publish(struct vhost *v, struct msg *copy, struct waiter *w,
			       struct error *err);

/* Publish the copies that a script makes by msg:copy where it decides about a message
 * that is there already: the copies, which are taken, are published in the queue's vhost,
 * as the broker itself. Each gets an id and passes the filters. One that nobody takes is
 * lost; the log says so once in a while. The waiter, which may be NULL, is told when all
 * are durable.
 */
void move_copies_publish_take(struct queue *q, struct draft_copies *copies,
			      struct waiter *w);
/* One is not published. */
void move_copies_tell_lost(struct queue *q, const struct msg *m, const char *why);
