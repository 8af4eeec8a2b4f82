/* client.h: the inside of a client, asynchronous; blocking.c is built on it.
 *
 *   client.c          a client's life, and what the broker sends
 *   client_connect.c  attempts to connect, bytes, HELLO, heartbeats, the loss of a
 * connection client_request.c  requests and their replies client_restore.c  what a new
 * connection is told of the old one decoder.c         bytes from a broker; encode.c:
 * requests as bytes, URLs
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

#include "base/error.h"
#include "base/table.h"
#include "decoder.h"
#include "encode.h"

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
struct client_link;
struct restore_record;

/* All that a client has declared, bound and subscribed to, so that it can be made again
 * over another connection.
 *
 * A record is a request that the broker has answered OK: OPEN, DECLARE, BIND, SUB. What
 * undoes it removes it: CLOSE, DELETE, UNBIND, UNSUB, EVT cancelled. An exclusive queue
 * goes with its connection, and so do its bindings and subscriptions. */
struct client_restore {
	struct restore_record *records; /* in their order */
	unsigned exclusives;            /* queues, of what was made */
	struct restore_record *reader;  /* the one that was asked for last, or NULL */
	unsigned awaited;               /* replies of the present step */
	struct tidemq_error refusal;    /* the first; status TIDEMQ_OK: none */
};

struct tidemq_client {
	uv_loop_t *loop;
	enum client_state state;
	struct client_url *urls;
	size_t url_count;
	size_t url_index;              /* of the present attempt */
	struct tidemq_options options; /* with the defaults; its texts are the client's */
	struct tls_context *tls;       /* NULL: no URL has TLS */
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

/* client.c */

/* Fill `err`, which may be NULL, and return `status`. */
int client_fail(struct tidemq_error *err, int status, const char *format, ...)
	TIDE_PRINTF(3, 4);

/* The same for what the broker said: its code and its sentence. */
int client_fail_remote(struct tidemq_error *err, int status, struct slice word,
		       struct slice text);

/* The same with the status of a refusal: TIDEMQ_EREFUSED or TIDEMQ_ELEASELOST. */
int client_fail_refused(struct tidemq_error *err, struct slice word, struct slice text);

/* Free a closing client when the last handle of libuv has let go of it. */
void client_finish(struct tidemq_client *c);
/* A closing client waits for the broker no longer. */
void client_leave(struct tidemq_client *c);
/* An EVT of the library's own; the text ends in a zero. */
void client_event(struct tidemq_client *c, unsigned channel, const char *text);
/* Tell options.on_state. */
void client_tell(struct tidemq_client *c, enum tidemq_state state,
		 const struct tidemq_error *why);
/* Dispatch the items that lie in the decoder. */
void client_dispatch(struct tidemq_client *c);

/* client_connect.c */

/* Begin with the attempt at the present URL. */
void client_connect_start(struct tidemq_client *c);
/* The connection has failed, and c->loss says how: end, or try again. */
void client_connect_lose(struct tidemq_client *c);
/* Restore over the new connection what was there before. */
void client_connect_resume(struct tidemq_client *c);
/* Read the files of options.tls_…; a failure changes nothing. */
int client_connect_read_tls(struct tidemq_client *c, struct tidemq_error *err);
/* Write what `out` holds, at once or as soon as what went before is written. */
void client_connect_flush(struct tidemq_client *c);
/* End a connection. Nothing of it is called any more. */
void client_link_close(struct client_link *l);

/* client_request.c: requests on their way, and what becomes of them when the connection
 * is lost.
 *
 * With the option `reconnect` a request that may be carried out twice is kept until its
 * reply, and sent again over the next connection. A publish is one, because it has an id.
 * The other requests in flight fail with TIDEMQ_ELOST.
 *
 * The broker counts delivery tags from 1 in each connection. The caller sees tags that
 * grow on, so that a tag of a lost connection is told from the others and refused. */

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

/* client_restore.c
 *
 * Restoring has two steps. First OPEN, DECLARE and BIND, in the order in which they were
 * made. When all are answered the client is up: subscriptions, and the requests that were
 * kept, are sent. */

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
/* A message that was dropped comes again. */
void client_restore_unsee(struct client_restore *r, const struct tidemq_msg *m);

/* Make everything again. client_connect_resume is called after the first step, and the
 * owner is told TIDEMQ_RESTORED after the second. */
void client_restore_begin(struct tidemq_client *c);
void client_restore_subscribe(struct tidemq_client *c);
