#include "uplink.h"

#include "base/container.h"
#include "base/mem.h"
#include "base/percent.h"
#include "server.h"
#include "tls/dial.h"
#include "tls/tls.h"

#define UNSENT_HIGH_BYTES ((size_t)256 << 10)
#define UNSENT_LOW_BYTES ((size_t)64 << 10)
#define KEEPALIVE_SECONDS 30

enum uplink_state { UPLINK_GREETING, UPLINK_ANSWER, UPLINK_OPEN };

struct uplink {
	struct dial dial;
	struct server *server;
	struct uplink_spec spec;
	struct url at;
	enum uplink_state state;
	struct tls *tls;    /* NULL: none */
	struct buf line;    /* of the beginning, until its end has come */
	struct buf out;     /* to be sent; with TLS that is in tls_out */
	struct buf writing; /* libuv has it */
	uv_write_t write;
	uv_shutdown_t shutdown;
	bool is_reading;
	bool is_full;
	bool is_ending; /* uplink_end */
	bool is_shut;
	bool is_deaf; /* the owner takes no more: the end of what it sends follows */
	bool is_closing;
};

static struct buf *unsent(struct uplink *u)
{
	return u->tls ? tls_out(u->tls) : &u->out;
}

static size_t count_unsent(struct uplink *u)
{
	return buf_len(unsent(u)) + buf_len(&u->writing);
}

static void end(struct uplink *u, int code, const char *text)
{
	struct error why;

	if (u->is_closing)
		return;
	uplink_pause(u);
	error_set(&why, code, "%s", text);
	u->spec.ops->on_end(u->spec.ctx, &why);
}

static void flush(struct uplink *u);

static void on_written(uv_write_t *request, int status)
{
	struct uplink *u = request->data;

	buf_deinit(&u->writing);
	if (u->is_closing)
		return;
	u->is_deaf |= status < 0;
	flush(u);
	if (!u->is_full || count_unsent(u) > UNSENT_LOW_BYTES)
		return;
	u->is_full = false;
	u->spec.ops->on_drained(u->spec.ctx);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
}

/* Everything is sent that was written before uplink_end. */
static void shut(struct uplink *u)
{
	u->is_shut = true;
	if (u->tls) {
		tls_finish(u->tls);
		flush(u);
	}
	uv_shutdown(&u->shutdown, &u->dial.socket.stream, on_shutdown);
}

/* Send what the socket takes; libuv takes charge of the rest. */
static void flush(struct uplink *u)
{
	struct buf *out = unsent(u);
	uv_buf_t bytes;
	int n;

	if (buf_len(&u->writing) > 0)
		return;
	if (u->is_deaf)
		buf_clear(out);
	if (buf_len(out) > 0) {
		bytes = uv_buf_init(out->data + out->start, (unsigned)buf_len(out));
		n = uv_try_write(&u->dial.socket.stream, &bytes, 1);
		u->is_deaf |= n < 0 && n != UV_EAGAIN;
		buf_consume(out, n > 0 ? (size_t)n : 0);
	}
	if (buf_len(out) > 0 && !u->is_deaf) {
		u->writing = *out;
		*out = (struct buf){ 0 };
		bytes = uv_buf_init(u->writing.data + u->writing.start,
				    (unsigned)buf_len(&u->writing));
		u->write.data = u;
		if (uv_write(&u->write, &u->dial.socket.stream, &bytes, 1, on_written) <
		    0) {
			u->is_deaf = true;
			buf_deinit(&u->writing);
		}
	} else {
		buf_shrink(out);
		if (u->is_ending && !u->is_shut)
			shut(u);
	}
}

static void send_plain(struct uplink *u, const char *data, size_t len)
{
	uv_buf_t bytes = uv_buf_init((char *)(uintptr_t)data, (unsigned)len);
	int n = 0;

	/* What the socket takes at once is not copied. */
	if (count_unsent(u) == 0)
		n = uv_try_write(&u->dial.socket.stream, &bytes, 1);
	u->is_deaf |= n < 0 && n != UV_EAGAIN;
	n = n > 0 ? n : 0;
	if (!u->is_deaf && (size_t)n < len)
		buf_append(&u->out, data + n, len - (size_t)n);
}

static void send_tls(struct uplink *u, const char *data, size_t len)
{
	struct iovec vec = { (char *)(uintptr_t)data, len };

	while (vec.iov_len > 0 && !u->is_deaf) {
		ssize_t n = tls_write(u->tls, &vec, 1, len + TLS_RECORD_BYTES);

		u->is_deaf |= n <= 0;
		vec.iov_base = (char *)vec.iov_base + (n > 0 ? n : 0);
		vec.iov_len -= n > 0 ? (size_t)n : 0;
	}
}

void uplink_write(struct uplink *u, const char *data, size_t len)
{
	if (u->tls)
		send_tls(u, data, len);
	else
		send_plain(u, data, len);
	flush(u);
	u->is_full = count_unsent(u) > UNSENT_HIGH_BYTES;
}

bool uplink_is_full(const struct uplink *u)
{
	return u->is_full;
}

void uplink_end(struct uplink *u)
{
	u->is_ending = true;
	flush(u);
}

static void say_hello(struct uplink *u)
{
	struct buf hello = { 0 };
	struct error err;
	char nonce[LINK_NONCE_MAX];

	if (link_read_greeting(buf_slice(&u->line), nonce, &err) < 0) {
		end(u, err.code, err.text);
		return;
	}
	link_write_hello(&hello, &u->spec.hello, nonce, u->spec.secret);
	u->state = UPLINK_ANSWER;
	uplink_write(u, hello.data, buf_len(&hello));
	buf_deinit(&hello);
}

static void hear_answer(struct uplink *u)
{
	struct error err;

	if (link_read_answer(buf_slice(&u->line), &u->spec.hello, u->spec.secret, &err) <
	    0) {
		end(u, err.code, err.text);
		return;
	}
	u->state = UPLINK_OPEN;
	u->spec.ops->on_open(u->spec.ctx);
}

/* A line of the beginning may come in pieces. */
static void feed(struct uplink *u, const char *data, size_t len)
{
	while (len > 0 && !u->is_closing && u->state != UPLINK_OPEN) {
		const char *eol = memchr(data, '\n', len);
		size_t part = eol ? (size_t)(eol - data) : len;

		if (buf_len(&u->line) + part > LINK_LINE_MAX) {
			end(u, TIDE_ESYNTAX, "no broker lets others in there");
			return;
		}
		buf_append(&u->line, data, part);
		part += eol != NULL;
		data += part;
		len -= part;
		if (!eol)
			return;
		if (u->state == UPLINK_GREETING)
			say_hello(u);
		else
			hear_answer(u);
		buf_clear(&u->line);
	}
	if (len > 0 && !u->is_closing)
		u->spec.ops->on_bytes(u->spec.ctx, data, len);
}

/* All that was read at once, also after a pause: it is not much. */
static void feed_tls(struct uplink *u, const char *data, size_t len)
{
	char plain[TLS_RECORD_BYTES];
	ssize_t n = TIDE_AGAIN;

	if (len)
		tls_feed(u->tls, data, len);
	while (!u->is_closing && (n = tls_read(u->tls, plain, sizeof(plain))) > 0)
		feed(u, plain, (size_t)n);
	tls_keep(u->tls);
	if (u->is_closing)
		return;
	flush(u);
	if (n == TIDE_EMPTY)
		end(u, TIDE_OK, "");
	else if (n != TIDE_AGAIN)
		end(u, (int)n, tls_error(u->tls));
}

/* What comes for a client goes to its connection before the next read. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
	struct uplink *u = container_of(handle->data, struct uplink, dial);

	*out = uv_buf_init(u->server->read_buf, SERVER_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
	struct uplink *u = container_of(stream->data, struct uplink, dial);

	if (count == 0 || u->is_closing)
		return;
	if (count < 0 && u->state == UPLINK_OPEN)
		end(u, TIDE_OK, "");
	else if (count < 0)
		end(u, (int)count, uv_strerror((int)count));
	else if (u->tls)
		feed_tls(u, buf->base, (size_t)count);
	else
		feed(u, buf->base, (size_t)count);
}

void uplink_pause(struct uplink *u)
{
	if (u->is_reading)
		uv_read_stop(&u->dial.socket.stream);
	u->is_reading = false;
}

void uplink_resume(struct uplink *u)
{
	if (!u->is_reading && !u->is_closing)
		u->is_reading =
			uv_read_start(&u->dial.socket.stream, on_alloc, on_read) == 0;
}

static void on_dialled(struct dial *d, int status)
{
	struct uplink *u = container_of(d, struct uplink, dial);

	if (status < 0) {
		end(u, status, uv_strerror(status));
		return;
	}
	uplink_resume(u);
	if (u->tls)
		feed_tls(u, "", 0);
}

static void on_dial_closed(struct dial *d)
{
	struct uplink *u = container_of(d, struct uplink, dial);
	struct server *s = u->server;

	buf_deinit(&u->line);
	buf_deinit(&u->out);
	buf_deinit(&u->writing);
	tls_destroy(u->tls);
	url_deinit(&u->at);
	mem_free(u);
	server_part_gone(s);
}

/* Where to, and by what. */
static int read_address(struct uplink *u, struct error *err)
{
	struct slice at = slice_from(u->spec.at), rest;
	bool is_tls = slice_has_prefix(at, "tls:");

	if (slice_has_prefix(at, "unix:")) {
		u->at.path = mem_strdup(u->spec.at + 5);
		return TIDE_OK;
	}
	if (url_parse_host(slice_skip(at, is_tls ? 4 : 0), 0, &u->at, &rest, err) < 0)
		return err->code;
	if (u->at.port == 0)
		return error_set(err, TIDE_ESYNTAX, "there is no port in it");
	if (is_tls && !u->spec.tls)
		return error_set(err, TIDE_ESYNTAX, "there are no files for TLS");
	if (is_tls)
		u->tls = tls_create_client(u->spec.tls, u->at.host);
	return TIDE_OK;
}

struct uplink *uplink_open(struct server *s, const struct uplink_spec *spec,
			   struct error *err)
{
	struct uplink *u = mem_zalloc(sizeof(*u));
	int rc;

	u->server = s;
	u->spec = *spec;
	u->dial = (struct dial){ .loop = s->loop,
				 .at = &u->at,
				 .keepalive_s = KEEPALIVE_SECONDS,
				 .on_done = on_dialled,
				 .on_closed = on_dial_closed };
	s->handles++;
	rc = read_address(u, err);
	if (rc == TIDE_OK)
		rc = secret_make(LINK_NONCE_BYTES, u->spec.hello.nonce, err);
	if (rc == TIDE_OK) {
		rc = dial_start(&u->dial);
		if (rc < 0)
			error_set(err, rc, "%s", uv_strerror(rc));
	}
	if (rc == TIDE_OK)
		return u;
	uplink_close(u);
	return NULL;
}

void uplink_close(struct uplink *u)
{
	if (u->is_closing)
		return;
	u->is_closing = true;
	dial_close(&u->dial);
}
