/* redis_link.h: one connection to Redis, from the first SYN to the close: a
 * libuv stream for the bytes, TLS if it is asked for, and hiredis's reader for the
 * replies.
 *
 * A link lives once. When it is lost it says why, once, and is of no more use;
 * redis_conn takes the unanswered requests and makes another one.
 *
 * The connection is written by hand because hiredis's asynchronous API lacks what it
 * needs. That API copies each command into a buffer of its own; a batch is written from
 * where it lies. It drops the commands of a lost connection; ours are sent again. It
 * has no timeouts, and its libuv adapter never reports a refused connection.
 *
 * No hook is called by redis_link_connect, _send and _close themselves. */
#pragma once

#include "base/error.h"
#include "base/percent.h"
#include "redis_request.h"
#include "tls/tls.h"

struct redis_link;

struct redis_link_ops {
	void (*on_connected)(void *ctx);
	/* Bytes came: Redis is alive, whether or not a reply is complete. */
	void (*on_bytes)(void *ctx);
	/* A request is counted: its last reply comes next, unless the link is closed. */
	void (*on_count)(void *ctx, struct redis_request *r, const redisReply *reply);
	/* A reply to `r`, which has left the link with its last one. */
	void (*on_reply)(void *ctx, struct redis_request *r, const redisReply *reply);
	/* The owner closes the link, in here or later. */
	void (*on_lost)(void *ctx, const char *why);
	/* The link's memory is gone after this. */
	void (*on_closed)(void *ctx);
};

/* `at` must live until the close is asked for, `ops` until on_closed. `tls` may be
 * NULL. */
struct redis_link *redis_link_create(uv_loop_t *loop, const struct url *at,
				     struct tls_context *tls,
				     const struct redis_link_ops *ops, void *ctx);
/* Begin; a failure is on_lost's, or the returned one when it is immediate. */
TIDE_MUST_USE int redis_link_connect(struct redis_link *l);
/* Connected, but TLS is not agreed upon yet. */
bool redis_link_is_shaking(const struct redis_link *l);
/* Put the request behind those that are waiting; redis_link_flush writes. */
void redis_link_send(struct redis_link *l, struct redis_request *r);
void redis_link_flush(struct redis_link *l);
/* In on_reply, of its last reply, on a link that is closed next: it counts as unanswered.
 */
void redis_link_return(struct redis_link *l, struct redis_request *r);
/* Close; what is unanswered is appended to `unanswered` in order. */
void redis_link_close(struct redis_link *l, struct redis_requests *unanswered);
