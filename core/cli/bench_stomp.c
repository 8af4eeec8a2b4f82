#include "bench_stomp.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/url.h"

#define READ_BYTES ((size_t)256 << 10)

struct bench_stomp {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} socket;
	uv_connect_t connect;
	uv_write_t write;
	struct bench_stomp_handlers handlers;
	struct buf in, out;
	struct buf writing; /* what uv_write is at work on */
	struct buf ack;     /* the last message's */
	uint64_t sent;
	bool is_consumer, is_auto_ack;
	bool is_connected;
	bool is_closed;
};

static void lose(struct bench_stomp *s, const char *why)
{
	if (!s->is_closed)
		s->handlers.on_lost(s->handlers.ctx, why);
}

/* ---- frames ---------------------------------------------------------------------------
 */

struct stomp_reply_frame {
	struct slice head, body;
	size_t len; /* with its NUL */
};

static struct slice header(struct slice head, const char *name)
{
	const char *at = memmem(head.data, head.len, name, strlen(name));
	struct slice rest;

	if (!at)
		return SLICE("");
	rest = slice_skip(head, (size_t)(at - head.data) + strlen(name));
	return slice_cut(&rest, '\n');
}

static bool read_frame(struct slice s, struct stomp_reply_frame *f)
{
	const char *end = s.len ? memmem(s.data, s.len, "\n\n", 2) : NULL;
	uint64_t len;

	if (!end)
		return false;
	f->head = (struct slice){ s.data, (size_t)(end - s.data) + 1 };
	s = slice_skip(s, f->head.len + 1);
	if (!slice_to_uint(header(f->head, "\ncontent-length:"), UINT32_MAX, &len))
		len = slice_find(s, '\0');
	if (len >= s.len)
		return false;
	f->body = (struct slice){ s.data, (size_t)len };
	f->len = f->head.len + 1 + (size_t)len + 1;
	return true;
}

static void take_frame(struct bench_stomp *s, const struct stomp_reply_frame *f)
{
	char why[400];

	if (slice_has_prefix(f->head, "MESSAGE\n")) {
		struct slice ack = header(f->head, "\nack:");

		buf_clear(&s->ack);
		buf_append_slice(&s->ack, ack);
		s->handlers.on_message(s->handlers.ctx, f->body);
	} else if (slice_has_prefix(f->head, "RECEIPT\n") && !s->is_consumer) {
		s->handlers.on_receipt(s->handlers.ctx);
	} else if (slice_has_prefix(f->head, "ERROR\n")) {
		snprintf(why, sizeof(why), "%.*s", SLICE_HEAD(f->body, 300));
		why[strcspn(why, "\n")] = '\0';
		lose(s, why);
	} else if (slice_has_prefix(f->head, "CONNECTED\n") != s->is_consumer) {
		/* A consumer is ready with the receipt of its SUBSCRIBE. */
		s->handlers.on_ready(s->handlers.ctx);
	}
}

static void take_input(struct bench_stomp *s)
{
	size_t at = 0;

	while (!s->is_closed) {
		struct slice rest = slice_skip(buf_slice(&s->in), at);
		struct stomp_reply_frame f;

		if (rest.len > 0 && rest.data[0] == '\n') {
			at++;
			continue;
		}
		if (!read_frame(rest, &f))
			break;
		take_frame(s, &f);
		at += f.len;
	}
	buf_consume(&s->in, at);
}

/* ---- the socket
 * ------------------------------------------------------------------------- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
	struct bench_stomp *s = handle->data;

	*out = uv_buf_init(buf_reserve(&s->in, READ_BYTES), READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
	struct bench_stomp *s = stream->data;

	if (nread < 0) {
		lose(s, uv_strerror((int)nread));
		return;
	}
	buf_grow(&s->in, (size_t)nread);
	take_input(s);
}

static void on_connected(uv_connect_t *req, int status)
{
	struct bench_stomp *s = req->data;

	if (s->is_closed)
		return;
	if (status < 0) {
		lose(s, uv_strerror(status));
		return;
	}
	s->is_connected = true;
	if (uv_read_start(&s->socket.stream, on_alloc, on_read) < 0)
		lose(s, "the socket cannot be read");
	bench_stomp_flush(s);
}

static void on_written(uv_write_t *req, int status)
{
	struct bench_stomp *s = req->data;

	buf_clear(&s->writing);
	if (status < 0)
		lose(s, uv_strerror(status));
	else
		bench_stomp_flush(s);
}

void bench_stomp_flush(struct bench_stomp *s)
{
	struct buf empty = s->writing;
	uv_buf_t data;

	if (s->is_closed || !s->is_connected || buf_len(&s->writing) > 0 ||
	    buf_len(&s->out) == 0)
		return;
	s->writing = s->out;
	s->out = empty;
	data = uv_buf_init(s->writing.data + s->writing.start,
			   (unsigned)buf_len(&s->writing));
	s->write.data = s;
	if (uv_write(&s->write, &s->socket.stream, &data, 1, on_written) < 0)
		lose(s, "the socket cannot be written");
}

static int connect_tcp(uv_loop_t *loop, struct bench_stomp *s, const struct url *at)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	uv_getaddrinfo_t req;
	char port[16];
	int rc;

	snprintf(port, sizeof(port), "%u", at->port);
	uv_tcp_init(loop, &s->socket.tcp);
	uv_tcp_nodelay(&s->socket.tcp, 1);
	/* Without a callback it blocks: nothing runs yet. */
	rc = uv_getaddrinfo(loop, &req, NULL, at->host, port, &hints);
	if (rc < 0)
		return rc;
	rc = uv_tcp_connect(&s->connect, &s->socket.tcp, req.addrinfo->ai_addr,
			    on_connected);
	uv_freeaddrinfo(req.addrinfo);
	return rc;
}

static void add_header(struct bench_stomp *s, const char *name, const char *value)
{
	if (value)
		buf_printf(&s->out, "%s:%s\n", name, value);
}

/* Pipelined: the broker answers in order. */
static void greet(struct bench_stomp *s, const struct bench_stomp_spec *spec)
{
	buf_append_text(&s->out, "CONNECT\naccept-version:1.2\n");
	add_header(s, "host", spec->vhost);
	add_header(s, "login", spec->at->user);
	add_header(s, "passcode", spec->at->password);
	buf_append(&s->out, "\n", 2);
	if (!spec->queue)
		return;
	buf_printf(&s->out,
		   "SUBSCRIBE\nid:bench\ndestination:/queue/%s\nack:%s\n"
		   "prefetch-count:%u\nreceipt:bench\n",
		   spec->queue, spec->is_auto_ack ? "auto" : "client", spec->prefetch);
	add_header(s, "group", spec->group);
	add_header(s, "from", spec->from);
	buf_append(&s->out, "\n", 2);
}

struct bench_stomp *bench_stomp_open(uv_loop_t *loop, const struct bench_stomp_spec *spec,
				     const char **why)
{
	struct bench_stomp *s = mem_zalloc(sizeof(*s));
	int rc = 0;

	s->handlers = spec->handlers;
	s->is_consumer = spec->queue != NULL;
	s->is_auto_ack = spec->is_auto_ack;
	s->connect.data = s;
	greet(s, spec);
	if (spec->at->path) {
		uv_pipe_init(loop, &s->socket.pipe, 0);
		uv_pipe_connect(&s->connect, &s->socket.pipe, spec->at->path,
				on_connected);
	} else {
		rc = connect_tcp(loop, s, spec->at);
	}
	s->socket.handle.data = s;
	if (rc == 0)
		return s;
	*why = uv_strerror(rc);
	bench_stomp_close(s);
	return NULL;
}

void bench_stomp_send(struct bench_stomp *s, const char *queue, struct slice body)
{
	buf_append_text(&s->out, "SEND\ndestination:/queue/");
	buf_append_text(&s->out, queue);
	buf_append_text(&s->out, "\ncontent-length:");
	buf_append_uint(&s->out, body.len);
	buf_append_text(&s->out, "\nreceipt:");
	buf_append_uint(&s->out, s->sent++);
	buf_append_text(&s->out, "\n\n");
	buf_append_slice(&s->out, body);
	buf_append_char(&s->out, '\0');
}

void bench_stomp_settle(struct bench_stomp *s)
{
	if (buf_len(&s->ack) == 0)
		return;
	buf_append_text(&s->out, "ACK\nid:");
	buf_append_slice(&s->out, buf_slice(&s->ack));
	buf_append(&s->out, "\n\n", 3);
	buf_clear(&s->ack);
}

static void on_closed(uv_handle_t *handle)
{
	struct bench_stomp *s = handle->data;

	buf_deinit(&s->in);
	buf_deinit(&s->out);
	buf_deinit(&s->writing);
	buf_deinit(&s->ack);
	mem_free(s);
}

void bench_stomp_close(struct bench_stomp *s)
{
	if (!s || s->is_closed)
		return;
	s->is_closed = true;
	uv_close(&s->socket.handle, on_closed);
}
