#include "dial.h"

#include <stdio.h>

static void open_socket(struct dial *d)
{
	/* No initialisation can fail: no descriptor is made yet. */
	if (d->at->path)
		uv_pipe_init(d->loop, &d->socket.pipe, 0);
	else
		uv_tcp_init(d->loop, &d->socket.tcp);
	d->socket.handle.data = d;
	d->is_open = true;
}

static void try_next(struct dial *d);

static void finish_close(struct dial *d)
{
	if (d->is_open || d->is_resolving)
		return;
	if (d->addresses)
		uv_freeaddrinfo(d->addresses);
	d->on_closed(d);
}

static void on_socket_closed(uv_handle_t *handle)
{
	struct dial *d = handle->data;

	d->is_open = false;
	if (d->is_closing)
		finish_close(d);
	else
		try_next(d);
}

/* There may be no way to an address (no IPv6, say), but one to the next. */
static void leave_address(struct dial *d, int status)
{
	if (d->address)
		uv_close(&d->socket.handle, on_socket_closed);
	else
		d->on_done(d, status);
}

static void on_connect(uv_connect_t *request, int status)
{
	struct dial *d = request->data;

	if (d->is_closing || uv_is_closing(&d->socket.handle))
		return;
	if (status < 0)
		leave_address(d, status);
	else
		d->on_done(d, 0);
}

static int connect_tcp(struct dial *d, const struct sockaddr *address)
{
	open_socket(d);
	uv_tcp_nodelay(&d->socket.tcp, 1);
	if (d->keepalive_s)
		uv_tcp_keepalive(&d->socket.tcp, 1, d->keepalive_s);
	return uv_tcp_connect(&d->connect, &d->socket.tcp, address, on_connect);
}

static void try_next(struct dial *d)
{
	const struct addrinfo *a = d->address;
	int rc;

	d->address = a->ai_next;
	rc = connect_tcp(d, a->ai_addr);
	if (rc < 0)
		leave_address(d, rc);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
	struct dial *d = request->data;

	d->is_resolving = false;
	d->addresses = d->address = addresses;
	if (d->is_closing)
		finish_close(d);
	else if (status < 0)
		d->on_done(d, status);
	else
		try_next(d);
}

int dial_start(struct dial *d)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM };
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	char port[8];
	int rc;

	d->connect.data = d->resolve.data = d;
	if (d->at->path) {
		open_socket(d);
		uv_pipe_connect(&d->connect, &d->socket.pipe, d->at->path, on_connect);
		return 0;
	}
	/* An address as digits needs no resolver, whose work is done by threads. */
	if (uv_ip4_addr(d->at->host, (int)d->at->port, &address.v4) == 0 ||
	    uv_ip6_addr(d->at->host, (int)d->at->port, &address.v6) == 0)
		return connect_tcp(d, &address.any);
	snprintf(port, sizeof(port), "%u", d->at->port);
	rc = uv_getaddrinfo(d->loop, &d->resolve, on_resolved, d->at->host, port, &hints);
	d->is_resolving = rc == 0;
	return rc;
}

void dial_close(struct dial *d)
{
	if (d->is_closing)
		return;
	d->is_closing = true;
	if (d->is_resolving)
		uv_cancel((uv_req_t *)&d->resolve);
	else if (!d->is_open)
		open_socket(d); /* to be closed: no callback comes from this call */
	if (d->is_open && !uv_is_closing(&d->socket.handle))
		uv_close(&d->socket.handle, on_socket_closed);
}
