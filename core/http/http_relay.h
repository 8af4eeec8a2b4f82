/* http_relay.h: the bytes of a connection, to and from the engine, through a socket pair.
 *
 * Neither side gets more than it takes. What the engine does not take is kept, and the
 * protocol is full until it has left: the peer is not read meanwhile. What the peer does
 * not take stays in the socket pair, and the engine waits. */
#pragma once

#include <sys/queue.h>

#include "http.h"

struct http_conn;

struct http_relay {
	uv_poll_t poll;         /* our end of the pair */
	int fd;                 /* likewise; -1: it is closed */
	int events;             /* that are watched */
	unsigned refs;          /* the connection's, the engine's, and the handle's */
	struct http_conn *conn; /* NULL: it has ended */
	struct buf in;          /* for the engine, which has not taken it */
	TAILQ_ENTRY(http_relay) ending_link;
	bool has_ended; /* the peer sends no more: it is in the engine's list */
	bool is_over;   /* the engine has closed its end */
};

/* NULL: out of descriptors. */
struct http_relay *http_relay_create(struct http_engine *e, struct http_conn *conn);
/* The connection ends. */
void http_relay_close(struct http_relay *r);
void http_relay_unref(struct http_relay *r);
/* Bytes of the peer; all are taken. */
void http_relay_feed(struct http_relay *r, const char *data, size_t len);
/* The peer sends no more: what it has sent is still answered. */
void http_relay_end(struct http_relay *r);
/* The engine has run: it may have read and answered all that there is.
 * @param is_idle  it has done all that it can do now */
void http_relay_check_end(struct http_relay *r, bool is_idle);
/* Take what the engine has written, if the connection takes it. */
void http_relay_pull(struct http_relay *r);
/* All of it, however much waits for the peer. */
void http_relay_take(struct http_relay *r);
