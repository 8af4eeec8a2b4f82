/* http_websocket.h: STOMP in a WebSocket: GET /stomp.
 *
 * From the answer 101 on what comes is taken out of its frames and given to a protocol
 * inside, whose session is that of the connection. What that protocol writes goes into
 * frames: text where it is UTF-8, else binary. */
#pragma once

#include "http_conn.h"

struct http_websocket;

/* The answer 101 is written: what follows it are frames. */
void http_websocket_start(struct http_conn *c);
/* Bytes of the peer, or none: go on with those that are there. All are taken. */
void http_websocket_feed(struct http_websocket *w, const char *data, size_t len);
void http_websocket_tell_closed(struct http_websocket *w, const char *words);
void http_websocket_heartbeat(struct http_websocket *w);
/* Ends the session. */
void http_websocket_destroy(struct http_websocket *w);
