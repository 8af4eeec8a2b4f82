#include "client_link.h"

#include <stdio.h>

#include "base/mem.h"
#include "tls/tls.h"

#define READ_LEN 65536
/* With TLS: what is encrypted at a time. */
#define CIPHER_LEN ((size_t)256 * 1024)

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
	struct tls *tls;    /* NULL: none */
	char *cipher;       /* with TLS, READ_LEN: what came */
};

static void fail_with(struct client_link *l, const char *reason)
{
	char address[URL_ADDRESS_MAX];
	struct tidemq_error why;

	if (l->is_up) {
		client_fail(&why, TIDEMQ_ECLOSED, "the connection has ended: %s", reason);
	} else {
		url_address(&l->url->at, address);
		client_fail(&why, TIDEMQ_ECONNECT, "cannot connect to %s: %s", address,
			    reason);
	}
	l->owner.on_down(l->owner.ctx, &why);
}

static void fail(struct client_link *l, int uv_error)
{
	fail_with(l, uv_error == UV_EOF ? "the broker closed it" : uv_strerror(uv_error));
}

/* ---- bytes ---- */

static void push(struct client_link *l);

/* Decrypt what came into `in`.
 *
 * @return  as tls_read; TIDE_AGAIN when all is well */
static ssize_t decrypt(struct client_link *l)
{
	struct buf *in = l->owner.in;
	ssize_t n;

	for (;;) {
		if (buf_try_reserve(in, TLS_RECORD_BYTES) != TIDE_OK)
			return UV_ENOMEM;
		n = tls_read(l->tls, in->data + in->end, in->cap - in->end);
		if (n <= 0)
			return n;
		buf_grow(in, (size_t)n);
	}
}

static void fail_tls(struct client_link *l, ssize_t rc)
{
	if (rc == TIDE_EMPTY)
		fail(l, UV_EOF);
	else if (rc == UV_ENOMEM)
		fail(l, UV_ENOMEM);
	else
		fail_with(l, tls_error(l->tls));
}

/* Agree upon TLS, then take what comes with it. */
static void receive_tls(struct client_link *l)
{
	size_t before = buf_len(l->owner.in);
	ssize_t rc = decrypt(l);

	push(l);
	if (!l->is_up && tls_is_open(l->tls)) {
		l->is_up = true;
		l->owner.on_up(l->owner.ctx);
	}
	if (!l->is_closing && buf_len(l->owner.in) > before)
		l->owner.on_input(l->owner.ctx);
	if (!l->is_closing && rc != TIDE_AGAIN)
		fail_tls(l, rc);
}

/* Every byte that comes is read to here. */
static void receive(struct client_link *l, size_t len)
{
	if (l->tls) {
		tls_feed(l->tls, l->cipher, len);
		receive_tls(l);
		return;
	}
	buf_grow(l->owner.in, len);
	l->owner.on_input(l->owner.ctx);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct client_link *l = handle->data;
	struct buf *in = l->owner.in;

	if (l->tls)
		*buf = uv_buf_init(l->cipher, READ_LEN);
	else if (buf_try_reserve(in, READ_LEN) != TIDE_OK)
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

/* Every byte that goes is written here: all of `from`, which is empty then. */
static void transmit(struct client_link *l, struct buf *from)
{
	struct buf swap = l->writing;
	struct slice bytes;

	l->writing = *from;
	*from = swap;
	bytes = buf_slice(&l->writing);
	uv_buf_t buf = { .base = (char *)(uintptr_t)bytes.data, .len = bytes.len };
	if (uv_write(&l->write, &l->socket.stream, &buf, 1, on_written) == 0)
		l->is_writing = true;
}

/* What TLS has to send. */
static void push(struct client_link *l)
{
	if (!l->is_writing && buf_len(tls_out(l->tls)) > 0)
		transmit(l, tls_out(l->tls));
}

/* A piece of `out`; the rest follows when that is written. */
static void encrypt(struct client_link *l)
{
	struct buf *out = l->owner.out;
	struct iovec vec = { out->data + out->start, buf_len(out) };
	ssize_t n = tls_write(l->tls, &vec, 1, CIPHER_LEN);

	/* A failure is the next read's to tell. */
	if (n > 0)
		buf_consume(out, (size_t)n);
	push(l);
}

void client_link_flush(struct client_link *l)
{
	if (l->is_up && !l->is_writing && buf_len(l->owner.out) > 0) {
		if (l->tls)
			encrypt(l);
		else
			transmit(l, l->owner.out);
	} else if (l->tls) {
		push(l);
	}
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

	l->is_up = !l->tls;
	if (rc != 0)
		fail(l, rc);
	else if (l->tls)
		receive_tls(l);
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
	tls_destroy(l->tls);
	mem_free(l->cipher);
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
				     struct tls_context *tls,
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
	if (tls) {
		l->tls = tls_create_client(tls, url->at.host);
		l->cipher = mem_alloc(READ_LEN);
	}
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

/* If it can be said at once. */
static void say_goodbye(struct client_link *l)
{
	struct buf *out = tls_out(l->tls);
	uv_buf_t bytes;

	tls_finish(l->tls);
	bytes = uv_buf_init(out->data + out->start, (unsigned)buf_len(out));
	if (bytes.len > 0)
		uv_try_write(&l->socket.stream, &bytes, 1);
}

void client_link_close(struct client_link *l)
{
	if (l->is_closing)
		return;
	if (l->tls && l->is_up && !l->is_writing)
		say_goodbye(l);
	l->is_closing = true;
	if (l->is_resolving)
		uv_cancel((uv_req_t *)&l->resolve);
	if (l->socket_is_open && !uv_is_closing(&l->socket.handle))
		uv_close(&l->socket.handle, on_handle_closed);
	uv_close((uv_handle_t *)&l->later, on_handle_closed);
}
