/* http_exchange.h: one request, from its head to its answer.
 *
 * The first three are called by the engine, with the types of libmicrohttpd. A request
 * that waits is suspended: the engine does nothing for its connection until it is woken.
 */
#pragma once

#include <microhttpd.h>

#include "http_conn.h"

/* A request begins: its target is there. Gives the request. */
void *http_exchange_begin(void *cls, const char *target, struct MHD_Connection *c);
/* Its head is there, a piece of its body, or all of it; or it goes on. */
enum MHD_Result http_exchange_step(void *cls, struct MHD_Connection *c, const char *url,
				   const char *method, const char *version,
				   const char *data, size_t *len, void **request);
/* Its answer has left, or its connection has ended. */
void http_exchange_end(void *cls, struct MHD_Connection *c, void **request,
		       enum MHD_RequestTerminationCode why);

/* A reply of the session. */
void http_exchange_reply(struct http_conn *c, struct reply *r);
/* It takes no more requests; what never ends, ends. */
void http_exchange_stop(struct http_conn *c);
/* The connection has ended: nobody waits for the answer. */
void http_exchange_drop(struct http_conn *c);
