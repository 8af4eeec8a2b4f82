/* listener.h: a socket that connections come from: TCP (IPv4, IPv6) or Unix. */
#ifndef TIDE_NET_LISTENER_H
#define TIDE_NET_LISTENER_H

#include "server.h"

struct listener {
	struct listener *next;
	struct server *server;
	union {
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} handle;
};

TIDE_MUST_USE int listener_open(struct server *s, const char *address,
				char bound[SERVER_ADDRESS_MAX], struct error *err);
/* The listener frees itself, and tells its server. */
void listener_close(struct listener *l);

#endif
