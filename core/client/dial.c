/* dial.c: from a URL to a connected socket: resolve the name, try its addresses
 * in turn. The connect timeout runs over all of it, and over HELLO. */
#include "client.h"

#include <stdio.h>

static void try_next(struct tidemq_client *c);

static void give_up(struct tidemq_client *c, int uv_error)
{
	char address[URL_ADDRESS_MAX];

	url_address(&c->url.at, address);
	client_fail(&c->loss, TIDEMQ_ECONNECT, "cannot connect to %s: %s", address,
		    uv_strerror(uv_error));
	client_lose(c);
}

static void on_failed_socket_closed(uv_handle_t *handle)
{
	struct tidemq_client *c = handle->data;

	c->socket_is_open = false;
	if (c->state == CLIENT_CONNECTING)
		try_next(c);
	client_on_handle_closed(handle);
}

static void on_connect(uv_connect_t *req, int status)
{
	struct tidemq_client *c = req->data;

	if (c->state != CLIENT_CONNECTING || uv_is_closing(&c->socket.handle))
		return;
	if (status == 0) {
		client_greet(c);
	} else if (c->address) {
		uv_close(&c->socket.handle, on_failed_socket_closed);
	} else {
		give_up(c, status);
	}
}

/* Neither initialisation can fail: no descriptor is made yet. */
static void open_socket(struct tidemq_client *c)
{
	if (c->url.at.path)
		uv_pipe_init(c->loop, &c->socket.pipe, 0);
	else
		uv_tcp_init(c->loop, &c->socket.tcp);
	c->socket.handle.data = c;
	c->socket_is_open = true;
	c->handles++;
}

static int connect_tcp(struct tidemq_client *c, const struct sockaddr *address)
{
	open_socket(c);
	uv_tcp_nodelay(&c->socket.tcp, 1);
	return uv_tcp_connect(&c->connect, &c->socket.tcp, address, on_connect);
}

/* Try addresses until one can at least be begun with. */
static void try_next(struct tidemq_client *c)
{
	struct addrinfo *a = c->address;

	c->address = a->ai_next;
	int rc = connect_tcp(c, a->ai_addr);
	if (rc == 0)
		return;
	if (c->address)
		uv_close(&c->socket.handle, on_failed_socket_closed);
	else
		give_up(c, rc);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses)
{
	struct tidemq_client *c = req->data;

	c->is_resolving = false;
	c->addresses = addresses;
	c->address = addresses;
	if (c->state != CLIENT_CONNECTING)
		client_finish(c);
	else if (status != 0)
		give_up(c, status);
	else
		try_next(c);
}

static void on_failed_at_once(uv_timer_t *timer)
{
	struct tidemq_client *c = timer->data;

	give_up(c, c->dial_error);
}

/* A failure inside tidemq_start is reported after it has returned. */
static void fail_later(struct tidemq_client *c, int status)
{
	c->dial_error = status;
	uv_timer_start(&c->timer, on_failed_at_once, 0, 0);
}

static void dial_name(struct tidemq_client *c)
{
	char port[8];

	snprintf(port, sizeof(port), "%u", c->url.at.port);
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM };
	c->resolve.data = c;
	int rc = uv_getaddrinfo(c->loop, &c->resolve, on_resolved, c->url.at.host, port,
				&hints);
	if (rc != 0)
		fail_later(c, rc);
	else
		c->is_resolving = true;
}

void dial_start(struct tidemq_client *c)
{
	c->connect.data = c;
	if (c->url.at.path) {
		open_socket(c);
		uv_pipe_connect(&c->connect, &c->socket.pipe, c->url.at.path, on_connect);
		return;
	}
	/* An address as digits needs no resolver, whose work is done by threads. */
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	int port = (int)c->url.at.port;
	if (uv_ip4_addr(c->url.at.host, port, &address.v4) != 0 &&
	    uv_ip6_addr(c->url.at.host, port, &address.v6) != 0) {
		dial_name(c);
		return;
	}
	int rc = connect_tcp(c, &address.any);
	if (rc != 0)
		fail_later(c, rc);
}
