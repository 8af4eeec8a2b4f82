/* client_restore.h: what a client has declared, bound and subscribed to, so that it can
 * be made again over another connection.
 *
 * A record is a request that the broker has answered OK: OPEN, DECLARE, BIND, SUB. What
 * undoes it removes it: CLOSE, DELETE, UNBIND, UNSUB, EVT cancelled. An exclusive queue
 * goes with its connection, and so do its bindings and subscriptions.
 *
 * Restoring has two steps. First OPEN, DECLARE and BIND, in the order in which they were
 * made. When all are answered the client is up: subscriptions, and the requests that were
 * kept, are sent. */
#pragma once

#include "client_fail.h"

struct restore_record;

/* Zeroed, it is empty. */
struct client_restore {
	struct restore_record *made; /* OPEN, DECLARE, BIND, in their order */
	struct restore_record *subscribed;
	unsigned exclusives;           /* queues, of what was made */
	struct restore_record *reader; /* the one that was asked for last, or NULL */
	unsigned awaited;              /* replies of the present step */
	struct tidemq_error refusal;   /* the first; status TIDEMQ_OK: none */
};

void client_restore_deinit(struct client_restore *r);

/* The broker has answered OK.
 *
 * @param line   the request, without @channel
 * @param reply  the words after OK */
void client_restore_note(struct client_restore *r, unsigned channel, struct slice line,
			 struct slice reply);
/* The broker has ended a subscription. */
void client_restore_cancel(struct client_restore *r, unsigned channel, struct slice sid);

/* A message of a topic has arrived. False: its subscription is a reader, which got it
 * over the lost connection. */
bool client_restore_see(struct client_restore *r, const struct tidemq_msg *m);
/* It was dropped, and is to come again. */
void client_restore_unsee(struct client_restore *r, const struct tidemq_msg *m);

/* Make everything again. client_connect_resume is called after the first step, and the
 * owner is told TIDEMQ_RESTORED after the second. */
void client_restore_begin(struct tidemq_client *c);
void client_restore_subscribe(struct tidemq_client *c);
