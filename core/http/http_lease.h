/* http_lease.h: who holds the messages that were given out over HTTP.
 *
 * A connection over HTTP may end after each request, so it cannot hold them. A session of
 * the broker does, one for each user and vhost (session_beside_create). Each message that
 * a GET gives out has a receipt, by which any connection of the same user settles it. The
 * session ends when it holds nothing and was not used for a minute. */
#pragma once

#include <uv.h>

#include "http_request.h"

#define HTTP_LEASE_MAX 1000          /* sessions at a time */
#define HTTP_LEASE_RECEIPTS_MAX 1000 /* in a request */

struct http_leases;

struct http_leases *http_lease_open(uv_loop_t *loop);
/* All of them end: what they hold goes back. on_closed comes later. */
void http_lease_close(struct http_leases *all, void (*on_closed)(void *ctx), void *ctx);

/* A GET of spec->queues[0]. Answered with messages that have receipts, unless they are
 * acknowledged by that. If the client has gone when it comes to that, they go back as if
 * they had not been taken. */
TIDE_MUST_USE int http_lease_get(struct http_leases *all, struct http_request *q,
				 const struct get_spec *spec, struct reply *r,
				 struct error *err);
/* Settle by receipts of a queue: all of them, or none.
 *
 * @param spec  without its ranges */
struct http_settle {
	struct slice queue;
	const struct slice *receipts;
	size_t count;
	struct settle_spec spec;
};
TIDE_MUST_USE int http_lease_settle(struct http_leases *all, struct http_request *q,
				    const struct http_settle *what, struct reply *r,
				    struct error *err);
