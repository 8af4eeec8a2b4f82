/* client.h: the inside of a client, asynchronous; blocking.c is built on it.
 *
 *   client.c          a client's life, and what the broker sends
 *   client_connect.c  attempts to connect, HELLO, heartbeats, the loss of a connection
 *   client_request.c  requests and their replies
 *   client_restore.c  what a new connection is told of the old one
 *   client_link.c     one connection: a socket
 *
 * A client passes through these states and may skip any:
 *
 *   CONNECTING -> GREETING (HELLO is sent) -> UP -> LOST -> CLOSING -> freed
 *
 * With the option `reconnect` a client that was UP goes back to CONNECTING, and passes
 * through RESTORING after GREETING. Requests wait for their replies in one list a
 * channel; what is sent is gathered in `out` until the loop is about to poll. */
#pragma once

#include <sys/queue.h>
#include <uv.h>

#include "base/table.h"
#include "client_link.h"
#include "client_restore.h"
#include "client_url.h"
#include "decoder.h"

enum client_state {
	CLIENT_CONNECTING, /* or waiting for the next attempt */
	CLIENT_GREETING,
	CLIENT_RESTORING,
	CLIENT_UP,
	CLIENT_LOST,
	CLIENT_CLOSING,
};

struct blocking;
struct client_channel;

struct tidemq_client {
	uv_loop_t *loop;
	enum client_state state;
	struct client_url *urls;
	size_t url_count;
	size_t url_index;                  /* of the present attempt */
	struct tidemq_options options;     /* with the defaults filled in */
	char *name;                        /* options.name */
	char *tls_ca, *tls_cert, *tls_key; /* options.tls_… */
	struct tls_context *tls;           /* NULL: no URL has TLS */
	char *server_info;
	struct tidemq_handlers handlers;
	struct blocking *blocking; /* NULL for an asynchronous client */
	/* Of blocking.c, or NULL: what was delivered and not handed out is stale. */
	void (*on_stale)(struct tidemq_client *c);

	struct client_link *link; /* NULL between two attempts */
	struct client_link
		*leaving;      /* of a closing client: waits for the reply to QUIT */
	unsigned links;        /* that are not freed yet */
	unsigned handles;      /* that libuv has not yet given back */
	uv_timer_t timer;      /* the pause, the connect timeout, then the heartbeat */
	uv_prepare_t flusher;  /* runs while `out` waits to be written */
	unsigned silent_ticks; /* of the heartbeat, since the broker was heard */

	bool was_up;         /* a HELLO has been answered: a loss may be repaired */
	bool is_quitting;    /* QUIT was sent: the next loss is the end */
	unsigned attempts;   /* that failed since a connection lasted */
	uint64_t lost_at_ms; /* of the loop's clock, as below */
	uint64_t up_at_ms;
	uint64_t random;

	struct buf out;
	struct decoder decoder;
	struct client_channel *channels;
	unsigned in_flight; /* requests without reply */
	size_t kept_bytes;  /* of them, to be sent again over the next connection */
	uint64_t id_prefix; /* of publishes to which the caller gave no id */
	uint64_t next_id;
	struct client_restore restore;

	struct tidemq_error error;    /* of the last call */
	struct tidemq_error loss;     /* why the connection ended */
	struct tidemq_error farewell; /* what EVT closed said */
	void (*on_closed)(void *ctx);
	void *on_closed_ctx;
};

/* Nothing that libuv has holds the client any more? Free it, if it is closing. */
void client_finish(struct tidemq_client *c);

/* A closing client waits for the broker no longer. */
void client_leave(struct tidemq_client *c);

/* An EVT of the library's own; the text ends in a zero. */
void client_event(struct tidemq_client *c, unsigned channel, const char *text);

/* Tell options.on_state. */
void client_tell(struct tidemq_client *c, enum tidemq_state state,
		 const struct tidemq_error *why);

/* What lies in the decoder. */
void client_dispatch(struct tidemq_client *c);
