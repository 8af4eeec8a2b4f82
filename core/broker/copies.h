/* copies.h: what a script publishes by msg:copy where it decides about a message that the
 * broker has already. */
#pragma once

struct draft_copies;
struct msg;
struct queue;
struct waiter;

/* Publish the copies, which are taken, in the queue's vhost, as the broker itself: each
 * gets an id and passes the filters. One that nobody takes is dropped; the log says so
 * once in a while. The waiter, which may be NULL, is told when all are durable. */
void copies_publish_take(struct queue *q, struct draft_copies *copies, struct waiter *w);
/* One is not published. */
void copies_tell_lost(struct queue *q, const struct msg *m, const char *why);
