/* client_link.h: one connection to a broker: from a URL to bytes in and out.
 *
 * A link resolves the name, tries its addresses in turn, agrees upon TLS, reads into the
 * owner's `in` and writes what the owner's `out` holds. All bytes of the socket pass two
 * functions of client_link.c, receive and transmit. How long a connection may take is the
 * owner's to watch. A link that has ended never comes back: the owner closes it and opens
 * another.
 */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "client_url.h"
#include "tls/tls.h"

struct client_link;

/* The callbacks come from the loop, never from a call on the link. */
struct client_link_owner {
	void *ctx;
	struct buf *in, *out;
	void (*on_up)(void *ctx);
	void (*on_input)(void *ctx); /* `in` holds more */
	/* It could not connect (TIDEMQ_ECONNECT) or has ended (TIDEMQ_ECLOSED). */
	void (*on_down)(void *ctx, const struct tidemq_error *why);
	/* The link is freed; the last callback. */
	void (*on_closed)(void *ctx);
};

/* Begin to connect. The URL is good until the link is closed.
 *
 * @param tls  for a URL with TLS, borrowed for the call; NULL for another
 * @return     a link for client_link_close */
struct client_link *client_link_open(uv_loop_t *loop, const struct client_url *url,
				     struct tls_context *tls,
				     const struct client_link_owner *owner);

/* Write what `out` holds, at once or as soon as what went before is written. */
void client_link_flush(struct client_link *l);

/* End the connection and free the link. Nothing but on_closed is called any more. */
void client_link_close(struct client_link *l);
