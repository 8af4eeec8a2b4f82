/* move.h: a message goes elsewhere: a copy of it is published, and the message stays
 * until the copy is durable. A crash in between leaves both. */
#pragma once

#include "base/error.h"
#include "shard/entry.h"

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

/* Publish `copy` to the exchange that it names, and take the message out of circulation.
 * Nobody holds it. NULL as subject: the broker itself does it. A copy that no queue takes
 * is refused. The calls may come before this returns. Gives what publish_message gives.
 */
int move_start(struct entry *e, struct msg *copy, struct subject *subject,
	       const struct move_ops *ops, void *ctx);

/* Likewise of several copies, of the broker itself: the message waits for all of them.
 * One that is refused at once is no failure: on_refused is told, perhaps more than once.
 */
void move_start_all(struct entry *e, struct msg *const *copies, unsigned count,
		    const struct move_ops *ops, void *ctx);

/* The copy alone: publish it to the exchange that it names. */
TIDE_MUST_USE int move_publish(struct vhost *v, struct msg *copy, struct subject *subject,
			       struct waiter *w, struct error *err);
