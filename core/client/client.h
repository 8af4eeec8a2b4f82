/* client.h: the inside of a client, asynchronous; blocking.c is built on it.
 *
 * A client passes through these states, in this order:
 *
 *   CONNECTING -> GREETING (HELLO is sent) -> UP -> LOST -> CLOSING -> freed
 *
 * and may skip any. Requests wait for their replies in one list a channel;
 * what is sent is gathered in `out` until the loop is about to poll. */
#pragma once

#include <sys/queue.h>
#include <uv.h>

#include "base/table.h"
#include "decoder.h"
#include "encode.h"
#include "client_url.h"

/* Bytes waiting to be sent, beyond which further requests are TIDEMQ_EBUSY. */
#define CLIENT_OUT_MAX (64 * 1024 * 1024)

struct pending {
	TAILQ_ENTRY(pending) link;
	tidemq_reply_fn on_reply;
	void *ctx;
};
TAILQ_HEAD(pending_list, pending);

struct client_channel {
	unsigned number;
	struct pending_list pending;
	UT_hash_handle hh;
};

enum client_state {
	CLIENT_CONNECTING,
	CLIENT_GREETING,
	CLIENT_UP,
	CLIENT_LOST,
	CLIENT_CLOSING,
};

struct blocking;

struct tidemq_client {
	uv_loop_t *loop;
	enum client_state state;
	struct client_url url;
	struct tidemq_options options; /* with the defaults filled in */
	char *name;                    /* options.name */
	char *server_info;
	struct tidemq_handlers handlers;
	struct blocking *blocking; /* NULL for an asynchronous client */

	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} socket;
	bool socket_is_open;
	uv_timer_t timer;     /* the connect timeout, then the heartbeat */
	uv_prepare_t flusher; /* runs while `out` waits to be written */
	unsigned handles;     /* that libuv has not yet given back */
	uv_getaddrinfo_t resolve;
	bool is_resolving;
	struct addrinfo *addresses; /* what the name resolved to */
	struct addrinfo *address;   /* the next one to try */
	uv_connect_t connect;
	int dial_error; /* of what failed before the loop ran */
	uv_write_t write;
	bool is_writing;

	struct buf out;
	struct buf writing; /* what libuv has */
	struct decoder decoder;
	struct client_channel *channels;
	unsigned in_flight; /* requests without reply */

	struct tidemq_error error;    /* of the last call */
	struct tidemq_error loss;     /* why the connection ended */
	struct tidemq_error farewell; /* what EVT closed said */
	void (*on_closed)(void *ctx);
	void *on_closed_ctx;
};

/* End the connection for the reason in c->loss. Fails what is in flight and tells the
 * owner. Only from a callback of the loop. */
void client_lose(struct tidemq_client *c);

/* May a request be sent now? TIDEMQ_OK, TIDEMQ_EBUSY, TIDEMQ_ECLOSED. */
TIDE_MUST_USE int client_check(struct tidemq_client *c);

/* The reply to a request that has failed; its texts are those of `err`. */
struct tidemq_reply client_failed_reply(const struct tidemq_error *err);

/* Begin to connect; a failure is reported through the loop. */
void dial_start(struct tidemq_client *c);
/* The socket is connected: read, and say HELLO. */
void client_greet(struct tidemq_client *c);
void client_on_handle_closed(uv_handle_t *handle);
/* Free a closing client once libuv holds nothing of it. */
void client_finish(struct tidemq_client *c);
