/* client_request.h: requests on their way, and what becomes of them when the connection
 * is lost.
 *
 * With the option `reconnect` a request that may be carried out twice is kept until its
 * reply, and sent again over the next connection. A publish is one, because it has an id.
 * The other requests in flight fail with TIDEMQ_ELOST.
 *
 * The broker counts delivery tags from 1 in each connection. The caller sees tags that
 * grow on, so that a tag of a lost connection is told from the others and refused. */
#pragma once

#include "client.h"

/* Bytes waiting to be sent, and bytes kept, beyond which further requests are
 * TIDEMQ_EBUSY. */
#define CLIENT_REQUEST_BYTES_MAX (64 * 1024 * 1024)

/* May a request be sent now? TIDEMQ_OK, TIDEMQ_EBUSY, TIDEMQ_ECLOSED.
 *
 * @param is_kept  it may wait for the next connection */
TIDE_MUST_USE int client_request_check(struct tidemq_client *c, bool is_kept);
/* Would half a window fit in? */
bool client_request_has_room(const struct tidemq_client *c);

/* Send a line of the library's own, without its end. It is not kept; after a loss
 * nothing is called. */
void client_request_send_own(struct tidemq_client *c, unsigned channel, struct buf *line,
			     tidemq_reply_fn on_reply, void *ctx);

/* Give the reply to the request that it belongs to; false: there is none. */
bool client_request_answer(struct tidemq_client *c, unsigned channel,
			   const struct tidemq_reply *reply);
/* The reply to a request that has failed; its texts are those of `err`. */
struct tidemq_reply client_request_failed_reply(const struct tidemq_error *err);

/* Make the tag of a message one that the caller may see. */
uint64_t client_request_see_tag(struct tidemq_client *c, unsigned channel, uint64_t tag);

/* The connection is lost: fail with TIDEMQ_ELOST what is not kept. */
void client_request_lose(struct tidemq_client *c);
/* The client has ended: fail everything with TIDEMQ_ECLOSED. */
void client_request_fail_all(struct tidemq_client *c);
/* Send what was kept. */
void client_request_send_kept(struct tidemq_client *c);
/* Forget a request, whose callback is never called. The connection has to be lost next,
 * if there is one. */
void client_request_withdraw(struct tidemq_client *c, const void *ctx);

void client_request_free(struct tidemq_client *c);
