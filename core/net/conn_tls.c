#include "conn_tls.h"

#include "host/log.h"
#include "http/http.h"

#define WRITE_IOVECS 64
/* What is encrypted before some of it is sent. */
#define CIPHER_BYTES ((size_t)64 << 10)

static void on_written(uv_write_t *req, int status)
{
	struct conn *c = req->data;

	conn_count_sent(c, c->writing);
	c->writing = 0;
	buf_deinit(&c->cipher);
	if (c->is_closed)
		return;
	if (status < 0)
		conn_close(c);
	else
		server_due(c->server, c);
}

/* Send what is encrypted; libuv takes charge of what the socket does not take. */
static void push(struct conn *c)
{
	struct buf *out = tls_out(c->tls);
	uv_buf_t bytes = uv_buf_init(out->data + out->start, (unsigned)buf_len(out));
	int n = uv_try_write(&c->socket.stream, &bytes, 1);

	if (n < 0 && n != UV_EAGAIN) {
		conn_close(c);
		return;
	}
	if (n > 0) {
		buf_consume(out, (size_t)n);
		conn_count_sent(c, (size_t)n);
	}
	if (buf_len(out) == 0) {
		buf_shrink(out);
		return;
	}
	c->cipher = *out;
	*out = (struct buf){ 0 };
	bytes = uv_buf_init(c->cipher.data + c->cipher.start,
			    (unsigned)buf_len(&c->cipher));
	c->writing = buf_len(&c->cipher);
	c->write.data = c;
	if (uv_write(&c->write, &c->socket.stream, &bytes, 1, on_written) < 0) {
		c->writing = 0;
		conn_close(c);
	}
}

static void encrypt(struct conn *c)
{
	struct iovec vec[WRITE_IOVECS];
	unsigned count = out_iovecs(&c->out, vec, WRITE_IOVECS);
	ssize_t n = tls_write(c->tls, vec, count, CIPHER_BYTES);

	if (n < 0)
		conn_close(c);
	else
		conn_consume_output(c, (size_t)n);
}

void conn_tls_flush(struct conn *c)
{
	while (c->writing == 0 && !c->is_closing) {
		if (c->out.bytes > 0 && !c->is_shaking)
			encrypt(c);
		if (buf_len(tls_out(c->tls)) == 0)
			return;
		push(c);
	}
	/* Its answers to a peer that asks for new keys and reads none of them. */
	if (buf_len(tls_out(c->tls)) > c->server->config.output_low_bytes)
		conn_close(c);
}

bool conn_tls_has_output(const struct conn *c)
{
	return c->writing > 0 || buf_len(tls_out(c->tls)) > 0;
}

void conn_tls_finish(struct conn *c)
{
	tls_finish(c->tls);
	if (buf_len(tls_out(c->tls)) > 0)
		push(c);
}

static void fail(const struct conn *c, const char *text)
{
	c->server->figures->tls_failures++;
	log_warn("%s: TLS: %s", c->peer, text);
}

void conn_tls_fail(struct conn *c)
{
	fail(c, tls_error(c->tls));
	conn_end(c);
}

void conn_tls_refuse_plain(struct conn *c, const char *data, size_t len)
{
	static const char text[] =
		"ERR syntax this port speaks TLS: connect with tides://HOST:PORT\r\n";
	char byte;

	/* It finds the words for the log. */
	tls_feed(c->tls, data, len);
	if (tls_read(c->tls, &byte, 1) < 0)
		fail(c, tls_error(c->tls));
	tls_destroy(c->tls);
	c->tls = NULL;
	c->is_shaking = false;
	if (c->is_http)
		http_answer_whole(&c->out, 400, "syntax",
				  "this port speaks TLS: use https://");
	else
		out_append(&c->out, text, sizeof(text) - 1);
	conn_end(c);
}

void conn_tls_give_up(struct conn *c)
{
	fail(c, "the handshake takes longer than --handshake-timeout");
	conn_close(c);
}

void conn_tls_describe(const struct conn *c, struct json *out)
{
	const char *name = tls_peer_name(c->tls);

	json_member_text(out, "tls", tls_version(c->tls));
	json_member_text(out, "cipher", tls_cipher(c->tls));
	if (name)
		json_member_text(out, "certificate", name);
}

void conn_tls_facts(const struct conn *c, struct session_peer *out)
{
	out->is_tls = true;
	out->certificate = tls_peer_name(c->tls);
	out->is_certificate_user = c->server->config.is_tls_user;
}
