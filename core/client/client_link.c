#include "client_link.h"

#include <stdio.h>

#include "base/mem.h"

#define READ_LEN 65536

struct client_link {
	uv_loop_t *loop;
	const struct client_url *url;
	struct client_link_owner owner;
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} socket;
	bool socket_is_open;
	bool is_up;
	bool is_closing;
	uv_timer_t later; /* reports what failed before the loop ran */
	int later_error;
	unsigned handles; /* that libuv has not yet given back */
	uv_getaddrinfo_t resolve;
	bool is_resolving;
	struct addrinfo *addresses; /* what the name resolved to */
	struct addrinfo *address;   /* the next one to try */
	uv_connect_t connect;
	uv_write_t write;
	bool is_writing;
	struct buf writing; /* what libuv has */
};

static void fail(struct client_link *l, int uv_error)
{
	char address[URL_ADDRESS_MAX];
	struct tidemq_error why;

	if (l->is_up) {
		client_fail(&why, TIDEMQ_ECLOSED, "the connection has ended: %s",
			    uv_error == UV_EOF ? "the broker closed it"
					       : uv_strerror(uv_error));
	} else {
		url_address(&l->url->at, address);
		client_fail(&why, TIDEMQ_ECONNECT, "cannot connect to %s: %s", address,
			    uv_strerror(uv_error));
	}
	l->owner.on_down(l->owner.ctx, &why);
}

/* ---- bytes ---- */

/* Every byte that comes is read to here. */
static void receive(struct client_link *l, size_t len)
{
	buf_grow(l->owner.in, len);
	l->owner.on_input(l->owner.ctx);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct client_link *l = handle->data;
	struct buf *in = l->owner.in;

	if (buf_try_reserve(in, READ_LEN) != TIDE_OK)
		*buf = uv_buf_init(NULL, 0);
	else
		*buf = uv_buf_init(in->data + in->end, (unsigned)(in->cap - in->end));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	if (len < 0)
		fail(stream->data, (int)len);
	else
		receive(stream->data, (size_t)len);
}

static void on_written(uv_write_t *req, int status)
{
	struct client_link *l = req->data;

	l->is_writing = false;
	buf_clear(&l->writing);
	/* What the broker said before it closed is more telling than a broken pipe:
	 * reading goes on and ends by itself. */
	if (status == 0 && !l->is_closing)
		client_link_flush(l);
}

/* Every byte that goes is written here: all of `out`, which is empty then. */
static void transmit(struct client_link *l)
{
	struct buf swap = l->writing;
	struct slice bytes;

	l->writing = *l->owner.out;
	*l->owner.out = swap;
	bytes = buf_slice(&l->writing);
	uv_buf_t buf = { .base = (char *)(uintptr_t)bytes.data, .len = bytes.len };
	if (uv_write(&l->write, &l->socket.stream, &buf, 1, on_written) == 0)
		l->is_writing = true;
}

void client_link_flush(struct client_link *l)
{
	if (l->is_up && !l->is_writing && buf_len(l->owner.out) > 0)
		transmit(l);
}

/* ---- connecting ---- */

static void on_later(uv_timer_t *timer)
{
	struct client_link *l = timer->data;

	fail(l, l->later_error);
}

static void fail_later(struct client_link *l, int uv_error)
{
	l->later_error = uv_error;
	uv_timer_start(&l->later, on_later, 0, 0);
}

static void start(struct client_link *l)
{
	int rc = uv_read_start(&l->socket.stream, on_alloc, on_read);

	l->is_up = true;
	if (rc != 0)
		fail(l, rc);
	else
		l->owner.on_up(l->owner.ctx);
}

static void try_next(struct client_link *l);
static void on_handle_closed(uv_handle_t *handle);

static void on_failed_socket_closed(uv_handle_t *handle)
{
	struct client_link *l = handle->data;

	l->socket_is_open = false;
	if (!l->is_closing)
		try_next(l);
	on_handle_closed(handle);
}

static void on_connect(uv_connect_t *req, int status)
{
	struct client_link *l = req->data;

	if (l->is_closing || uv_is_closing(&l->socket.handle))
		return;
	if (status == 0)
		start(l);
	else if (l->address)
		uv_close(&l->socket.handle, on_failed_socket_closed);
	else
		fail(l, status);
}

/* Neither initialisation can fail: no descriptor is made yet. */
static void open_socket(struct client_link *l)
{
	if (l->url->at.path)
		uv_pipe_init(l->loop, &l->socket.pipe, 0);
	else
		uv_tcp_init(l->loop, &l->socket.tcp);
	l->socket.handle.data = l;
	l->socket_is_open = true;
	l->handles++;
}

static int connect_tcp(struct client_link *l, const struct sockaddr *address)
{
	open_socket(l);
	uv_tcp_nodelay(&l->socket.tcp, 1);
	return uv_tcp_connect(&l->connect, &l->socket.tcp, address, on_connect);
}

/* Try addresses until one can at least be begun with. */
static void try_next(struct client_link *l)
{
	struct addrinfo *a = l->address;
	int rc;

	l->address = a->ai_next;
	rc = connect_tcp(l, a->ai_addr);
	if (rc == 0)
		return;
	if (l->address)
		uv_close(&l->socket.handle, on_failed_socket_closed);
	else
		fail_later(l, rc);
}

static void finish(struct client_link *l)
{
	struct client_link_owner owner = l->owner;

	if (l->handles > 0 || l->is_resolving)
		return;
	if (l->addresses)
		uv_freeaddrinfo(l->addresses);
	buf_deinit(&l->writing);
	mem_free(l);
	owner.on_closed(owner.ctx);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses)
{
	struct client_link *l = req->data;

	l->is_resolving = false;
	l->addresses = addresses;
	l->address = addresses;
	if (l->is_closing)
		finish(l);
	else if (status != 0)
		fail(l, status);
	else
		try_next(l);
}

static void dial_name(struct client_link *l)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM };
	char port[8];
	int rc;

	snprintf(port, sizeof(port), "%u", l->url->at.port);
	l->resolve.data = l;
	rc = uv_getaddrinfo(l->loop, &l->resolve, on_resolved, l->url->at.host, port,
			    &hints);
	if (rc != 0)
		fail_later(l, rc);
	else
		l->is_resolving = true;
}

static void dial(struct client_link *l)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	int port = (int)l->url->at.port;

	if (l->url->at.path) {
		open_socket(l);
		uv_pipe_connect(&l->connect, &l->socket.pipe, l->url->at.path,
				on_connect);
		return;
	}
	/* An address as digits needs no resolver, whose work is done by threads. */
	if (uv_ip4_addr(l->url->at.host, port, &address.v4) != 0 &&
	    uv_ip6_addr(l->url->at.host, port, &address.v6) != 0) {
		dial_name(l);
		return;
	}
	int rc = connect_tcp(l, &address.any);
	if (rc != 0)
		fail_later(l, rc);
}

struct client_link *client_link_open(uv_loop_t *loop, const struct client_url *url,
				     const struct client_link_owner *owner)
{
	struct client_link *l = mem_zalloc(sizeof(*l));

	l->loop = loop;
	l->url = url;
	l->owner = *owner;
	l->connect.data = l;
	l->write.data = l;
	uv_timer_init(loop, &l->later);
	l->later.data = l;
	l->handles = 1;
	dial(l);
	return l;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct client_link *l = handle->data;

	l->handles--;
	if (l->is_closing)
		finish(l);
}

void client_link_close(struct client_link *l)
{
	if (l->is_closing)
		return;
	l->is_closing = true;
	if (l->is_resolving)
		uv_cancel((uv_req_t *)&l->resolve);
	if (l->socket_is_open && !uv_is_closing(&l->socket.handle))
		uv_close(&l->socket.handle, on_handle_closed);
	uv_close((uv_handle_t *)&l->later, on_handle_closed);
}
