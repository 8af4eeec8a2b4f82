/* http_exchange.h: one request after the other, from its head to its answer.
 *
 * A request is read until its head is there, then goes from state to state: who asks,
 * the body, the work, the answer. Where it waits, for a password to be checked, for a
 * reply, for room to write, or for the next turn, whatever it waits for queues it in the
 * engine. The next one is read when its answer has been written. */
#pragma once

#include "http_conn.h"
#include "http_request_private.h"

/* Take some of what has come: gives how much. 0: more must come. */
size_t http_exchange_feed(struct http_conn *c, char *data, size_t len);
/* What comes can be taken. */
bool http_exchange_can_take(const struct http_conn *c);
/* The request goes on, as far as it can now. It may be gone afterwards. */
void http_exchange_go_on(struct http_request *q);
/* A reply of the session. */
void http_exchange_reply(struct http_conn *c, struct reply *r);
/* Some of the output has left. */
void http_exchange_sent(struct http_conn *c);
/* It takes no more requests; what never ends, ends. */
void http_exchange_stop(struct http_conn *c);
/* The connection has ended: nobody waits for the answer. */
void http_exchange_drop(struct http_conn *c);
