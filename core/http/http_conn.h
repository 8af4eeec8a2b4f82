/* http_conn.h: the HTTP protocol of one connection. */
#pragma once

#include "http.h"
#include "http_head.h"

/* What waits for the peer at most before more is written, or a little more than that. */
#define HTTP_OUTPUT_MAX ((size_t)256 << 10)

struct http_request;
struct http_websocket;

struct http_login {
	struct slice authorization; /* the header; data == NULL: none */
	struct slice vhost;         /* data == NULL: the path has none */
	bool must_exist;            /* the vhost; else it is made */
	/* It is decided, and was not at once. `refusal` is NULL when the session is in.
	 */
	void (*on_done)(void *ctx, const struct error *refusal);
	void *ctx;
};

struct http_conn {
	struct protocol base;
	struct protocol_spec spec; /* of the sessions that follow the first */
	const struct session_ops *session_ops;
	struct http_engine *engine;
	struct http_scan scan;            /* of the head that is coming */
	struct http_request *request;     /* whose head has come; NULL: none */
	struct http_websocket *websocket; /* whose session is ours; NULL: none */
	/* Of the session: who it is, as the request said it, and where. */
	struct buf authorization;
	struct buf vhost;
	struct http_login login; /* the last */
	struct error login_refusal;
	/* When the first byte of the request came that is not there whole, by the clock
	 * of the loop; 0: there is none. */
	int64_t receiving_ms;
	int64_t idle_ms;    /* since when there was no request, likewise */
	bool is_shut_out;   /* by the last refusal: the user is known */
	bool is_login_late; /* it is decided later: on_done is waited for */
	bool is_in;         /* the session has been logged in, or need not */
	bool is_used;       /* that has been tried */
	bool is_leaving;    /* no request follows this one */
};
