/* dial.h: from a URL to a connected socket: the name is resolved, and its addresses are
 * tried in turn. What goes over the socket is the owner's. */
#pragma once

#include <uv.h>

#include "base/percent.h"

/* Embedded in its owner, zeroed but for the first part. The callbacks come from the loop,
 * never from a call on the dial. */
struct dial {
	uv_loop_t *loop;
	const struct url *at;
	unsigned keepalive_s;                        /* 0: none */
	void (*on_done)(struct dial *d, int status); /* 0, or libuv's last error */
	void (*on_closed)(struct dial *d);
	/* The rest is the dial's own; the owner reads and writes the stream, whose data
	 * is the dial. */
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} socket;
	uv_connect_t connect;
	uv_getaddrinfo_t resolve;
	struct addrinfo *addresses; /* what the name resolved to */
	struct addrinfo *address;   /* the next one to try */
	bool is_open, is_resolving, is_closing;
};

/* @return  an error of libuv: on_done is not called, but the dial has to be closed */
TIDE_MUST_USE int dial_start(struct dial *d);
/* End it at any time, also before its start. Only on_closed is called any more. */
void dial_close(struct dial *d);
