/* http_conn.h: the HTTP protocol of one connection. */
#pragma once

#include "http.h"
#include "http_head.h"

/* What waits for the peer at most before more is written, or a little more than that. */
#define HTTP_OUTPUT_MAX ((size_t)256 << 10)

struct http_request;
struct http_websocket;

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
	struct error
		refusal; /* of the login of this request; its code is TIDE_OK: none */
	/* When the first byte of the request came that is not there whole, by the clock
	 * of the loop; 0: there is none. */
	int64_t receiving_ms;
	int64_t idle_ms;  /* since when there was no request, likewise */
	bool is_shut_out; /* by the last refusal: the user is known */
	bool is_deciding; /* who the request is of */
	bool is_in;       /* the session has been logged in, or need not */
	bool is_used;     /* that has been tried */
	bool is_leaving;  /* no request follows this one */
};
