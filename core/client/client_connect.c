/* client_connect.c: connections: from a URL to bytes in and out, TLS, HELLO, heartbeats,
 * and what follows a loss.
 *
 * All bytes of a socket pass two functions, on_read and transmit_take. */
#include <inttypes.h>

#include "base/container.h"
#include "base/mem.h"
#include "base/percent.h"
#include "base/bytes.h"
#include "client.h"
#include "tls/dial.h"
#include "tls/tls.h"

/* The pause before a round of attempts: doubled each time, and a random part of it taken
 * off, so that the clients of a broker that starts do not all come at once. */
#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 5000
#define ATTEMPT_MIN_MS 100
/* A connection that lasted as long was a good one: the pauses begin anew. */
#define LASTING_MS 10000
/* Of half a heartbeat each, without a byte from the broker. It promises one in two. */
#define SILENT_TICKS_MAX 4

#define READ_LEN 65536
/* With TLS: what is encrypted at a time. */
#define CIPHER_LEN ((size_t)256 * 1024)

/* One connection: a URL, then bytes in and out. A link that has ended never comes back:
 * it is closed, and another one opened. */
struct client_link {
	struct tidemq_client *owner;
	struct dial dial;
	bool is_up;
	bool is_closing;
	int early_error; /* of the dial's start, for the client's timer */
	uv_write_t write;
	bool is_writing;
	struct buf writing; /* what libuv has */
	struct tls *tls;    /* NULL: none */
	char *cipher;       /* with TLS, READ_LEN: what came */
};

static struct client_link *link_of(struct dial *d)
{
	return container_of(d, struct client_link, dial);
}

static void on_up(struct tidemq_client *c);

static void on_input(struct tidemq_client *c)
{
	c->silent_ticks = 0;
	if (c->state == CLIENT_CLOSING)
		buf_clear(&c->decoder.in);
	else
		client_dispatch(c);
}

static void fail_link(struct client_link *l, const char *reason)
{
	struct tidemq_client *c = l->owner;
	char address[URL_ADDRESS_MAX];

	if (c->state == CLIENT_CLOSING) {
		client_leave(c);
		return;
	}
	if (c->farewell.status != TIDEMQ_OK) {
		c->loss = c->farewell;
	} else if (l->is_up) {
		client_fail(&c->loss, TIDEMQ_ECLOSED, "the connection has ended: %s",
			    reason);
	} else {
		url_address(l->dial.at, address);
		client_fail(&c->loss, TIDEMQ_ECONNECT, "cannot connect to %s: %s",
			    address, reason);
	}
	client_connect_lose(c);
}

static void fail_uv(struct client_link *l, int uv_error)
{
	fail_link(l, uv_error == UV_EOF ? "the broker closed it" : uv_strerror(uv_error));
}

static void push_cipher(struct client_link *l);

/* Decrypt what came into `in`.
 *
 * @return  as tls_read; TIDE_AGAIN when all is well */
static ssize_t decrypt_input(struct client_link *l)
{
	struct buf *in = &l->owner->decoder.in;
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

/* Agree upon TLS, then take what comes with it. */
static void receive_tls(struct client_link *l)
{
	size_t before = buf_len(&l->owner->decoder.in);
	ssize_t rc = decrypt_input(l);

	push_cipher(l);
	if (!l->is_up && tls_is_open(l->tls)) {
		l->is_up = true;
		on_up(l->owner);
	}
	if (!l->is_closing && buf_len(&l->owner->decoder.in) > before)
		on_input(l->owner);
	if (l->is_closing || rc == TIDE_AGAIN)
		return;
	if (rc == TIDE_EMPTY || rc == UV_ENOMEM)
		fail_uv(l, rc == TIDE_EMPTY ? UV_EOF : UV_ENOMEM);
	else
		fail_link(l, tls_error(l->tls));
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct client_link *l = link_of(handle->data);
	struct buf *in = &l->owner->decoder.in;

	if (l->tls)
		*buf = uv_buf_init(l->cipher, READ_LEN);
	else if (buf_try_reserve(in, READ_LEN) != TIDE_OK)
		*buf = uv_buf_init(NULL, 0);
	else
		*buf = uv_buf_init(in->data + in->end, (unsigned)(in->cap - in->end));
}

/* Every byte that comes is read to here. */
static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct client_link *l = link_of(stream->data);

	if (len < 0) {
		fail_uv(l, (int)len);
	} else if (l->tls) {
		tls_feed(l->tls, l->cipher, (size_t)len);
		receive_tls(l);
	} else {
		buf_grow(&l->owner->decoder.in, (size_t)len);
		on_input(l->owner);
	}
}

static void flush_link(struct client_link *l);

static void on_written(uv_write_t *req, int status)
{
	struct client_link *l = req->data;

	l->is_writing = false;
	buf_clear(&l->writing);
	/* The broker's last words are more telling than a broken pipe: reading goes
	 * on and ends by itself. */
	if (status == 0 && !l->is_closing)
		flush_link(l);
}

/* Every byte that goes is written here: all of `from`, which is empty then. */
static void transmit_take(struct client_link *l, struct buf *from)
{
	struct buf swap = l->writing;
	struct slice bytes;

	l->writing = *from;
	*from = swap;
	bytes = buf_slice(&l->writing);
	uv_buf_t buf = { .base = (char *)(uintptr_t)bytes.data, .len = bytes.len };
	if (uv_write(&l->write, &l->dial.socket.stream, &buf, 1, on_written) == 0)
		l->is_writing = true;
}

/* Push the bytes that TLS has to send. */
static void push_cipher(struct client_link *l)
{
	if (!l->is_writing && buf_len(tls_out(l->tls)) > 0)
		transmit_take(l, tls_out(l->tls));
}

/* A piece of `out`; the rest follows when that is written. */
static void encrypt_output(struct client_link *l)
{
	struct buf *out = &l->owner->out;
	struct iovec vec = { out->data + out->start, buf_len(out) };
	ssize_t n = tls_write(l->tls, &vec, 1, CIPHER_LEN);

	/* A failure is the next read's to tell. */
	if (n > 0)
		buf_consume(out, (size_t)n);
	push_cipher(l);
}

static void flush_link(struct client_link *l)
{
	if (l->is_up && !l->is_writing && buf_len(&l->owner->out) > 0) {
		if (l->tls)
			encrypt_output(l);
		else
			transmit_take(l, &l->owner->out);
	} else if (l->tls) {
		push_cipher(l);
	}
}

static void on_connect(struct dial *d, int status)
{
	struct client_link *l = link_of(d);

	if (status == 0)
		status = uv_read_start(&d->socket.stream, on_alloc, on_read);
	l->is_up = status == 0 && !l->tls;
	if (status != 0)
		fail_uv(l, status);
	else if (l->tls)
		receive_tls(l);
	else
		on_up(l->owner);
}

static void on_link_closed(struct dial *d)
{
	struct client_link *l = link_of(d);
	struct tidemq_client *c = l->owner;

	buf_deinit(&l->writing);
	tls_destroy(l->tls);
	mem_free(l->cipher);
	mem_free(l);
	c->links--;
	client_finish(c);
}

/* No callback comes from a call on a client. */
static void on_early_error(uv_timer_t *timer)
{
	struct tidemq_client *c = timer->data;

	fail_uv(c->link, c->link->early_error);
}

static void open_link(struct tidemq_client *c)
{
	struct client_link *l = c->link = mem_zalloc(sizeof(*l));
	const struct client_url *url = &c->urls[c->url_index];

	c->links++;
	l->owner = c;
	l->dial = (struct dial){ .loop = c->loop,
				 .at = &url->at,
				 .on_done = on_connect,
				 .on_closed = on_link_closed };
	l->write.data = l;
	if (url->is_tls) {
		l->tls = tls_create_client(c->tls, url->at.host);
		l->cipher = mem_alloc(READ_LEN);
	}
	l->early_error = dial_start(&l->dial);
	if (l->early_error < 0)
		uv_timer_start(&c->timer, on_early_error, 0, 0);
}

/* If it can be said at once. */
static void say_goodbye(struct client_link *l)
{
	struct buf *out = tls_out(l->tls);
	uv_buf_t bytes;

	tls_finish(l->tls);
	bytes = uv_buf_init(out->data + out->start, (unsigned)buf_len(out));
	if (bytes.len > 0)
		uv_try_write(&l->dial.socket.stream, &bytes, 1);
}

void client_link_close(struct client_link *l)
{
	if (l->is_closing)
		return;
	if (l->tls && l->is_up && !l->is_writing)
		say_goodbye(l);
	l->is_closing = true;
	dial_close(&l->dial);
}

void client_connect_flush(struct tidemq_client *c)
{
	struct client_link *l = c->link ? c->link : c->leaving;

	if (l)
		flush_link(l);
}

static void end_client(struct tidemq_client *c)
{
	struct tidemq_error why;

	c->state = CLIENT_LOST;
	if (c->was_up && c->options.reconnect)
		c->loss.status = TIDEMQ_ECLOSED;
	why = c->loss;
	client_request_fail_all(c);
	if (c->state == CLIENT_LOST && c->was_up && c->options.reconnect)
		client_tell(c, TIDEMQ_GAVE_UP, &why);
	if (c->state != CLIENT_LOST)
		return;
	if (c->was_up)
		c->handlers.on_lost(c, &why, c->handlers.ctx);
	else
		c->handlers.on_connected(c, &why, c->handlers.ctx);
}

static void on_connect_timeout(uv_timer_t *timer)
{
	struct tidemq_client *c = timer->data;
	char address[URL_ADDRESS_MAX];

	url_address(&c->urls[c->url_index].at, address);
	client_fail(&c->loss, TIDEMQ_ETIMEDOUT, "no answer from %s in time", address);
	client_connect_lose(c);
}

int client_connect_read_tls(struct tidemq_client *c, struct tidemq_error *err)
{
	const struct tls_files files = { c->options.tls_cert, c->options.tls_key,
					 c->options.tls_ca };
	struct tls_context *fresh;
	struct error why;

	if (tls_context_create_client(&files, &fresh, &why) < 0)
		return client_fail(err, TIDEMQ_EINVAL, "TLS: %s", why.text);
	tls_context_unref(c->tls);
	c->tls = fresh;
	return TIDEMQ_OK;
}

/* How long this attempt may take. */
static uint64_t attempt_ms(const struct tidemq_client *c)
{
	int64_t most = c->options.connect_timeout_ms, left;

	if (!c->was_up || c->options.reconnect_for_ms <= 0)
		return (uint64_t)most;
	left = c->options.reconnect_for_ms - (int64_t)(uv_now(c->loop) - c->lost_at_ms);
	if (left < ATTEMPT_MIN_MS)
		left = ATTEMPT_MIN_MS;
	return (uint64_t)(left < most ? left : most);
}

void client_connect_start(struct tidemq_client *c)
{
	/* Other files may lie there by now; a failure leaves what was read before. What
	 * the system trusts is read once: it takes long. */
	if (c->urls[c->url_index].is_tls && c->was_up && c->options.tls_ca)
		client_connect_read_tls(c, NULL);
	decoder_deinit(&c->decoder);
	decoder_init(&c->decoder, c->options.payload_max_bytes);
	c->farewell.status = TIDEMQ_OK;
	uv_timer_start(&c->timer, on_connect_timeout, attempt_ms(c), 0);
	open_link(c);
}

static void on_pause_over(uv_timer_t *timer)
{
	client_connect_start(timer->data);
}

static uint64_t pause_ms(struct tidemq_client *c)
{
	uint64_t round = c->attempts / c->url_count, most = PAUSE_MIN_MS;

	if (c->attempts % c->url_count != 0)
		return 0;
	while (round-- > 0 && most < PAUSE_MAX_MS)
		most *= 2;
	if (most > PAUSE_MAX_MS)
		most = PAUSE_MAX_MS;
	/* The first attempt comes soon: most losses are of one connection. */
	return c->attempts == 0 ? random_up_to(&c->random, most)
				: most / 2 + random_up_to(&c->random, most / 2);
}

/* The same broker is tried first: most of those that went come back. But one that does
 * not answer may have lost its store to another one. */
static void try_again(struct tidemq_client *c)
{
	uint64_t pause = pause_ms(c);

	if (c->attempts > 0 || c->loss.status == TIDEMQ_ETIMEDOUT)
		c->url_index = (c->url_index + 1) % c->url_count;
	c->attempts++;
	c->state = CLIENT_CONNECTING;
	uv_timer_start(&c->timer, on_pause_over, pause, 0);
}

/* A wrong password stays wrong. */
static bool is_denied(const struct tidemq_client *c)
{
	return c->loss.status == TIDEMQ_EREFUSED && strcmp(c->loss.word, "denied") == 0;
}

/* The first connection: each URL is tried once. */
static bool has_another(const struct tidemq_client *c)
{
	return !c->was_up && c->url_index + 1 < c->url_count && !is_denied(c);
}

static bool is_out_of_time(struct tidemq_client *c)
{
	int64_t limit_ms = c->options.reconnect_for_ms;
	struct tidemq_error why = c->loss;

	if (limit_ms <= 0 || uv_now(c->loop) - c->lost_at_ms < (uint64_t)limit_ms)
		return false;
	client_fail(&c->loss, TIDEMQ_ECLOSED,
		    "gave up after %" PRId64 " ms without a connection: %s", limit_ms,
		    why.text);
	return true;
}

/* A peer that is no tidemq broker does not become one. */
static bool is_final(const struct tidemq_client *c)
{
	return c->is_quitting || is_denied(c) || c->loss.status == TIDEMQ_EPROTOCOL ||
	       c->loss.status == TIDEMQ_ENOMEM;
}

static void close_link(struct tidemq_client *c)
{
	uv_timer_stop(&c->timer);
	uv_prepare_stop(&c->flusher);
	if (c->link)
		client_link_close(c->link);
	c->link = NULL;
	buf_clear(&c->out);
}

/* A connection that was up has ended, and another one is tried. */
static void lose_session(struct tidemq_client *c)
{
	const struct tidemq_error why = c->loss;
	uint64_t now_ms = uv_now(c->loop);

	c->lost_at_ms = now_ms;
	if (now_ms - c->up_at_ms >= LASTING_MS)
		c->attempts = 0;
	try_again(c);
	client_request_lose(c);
	if (c->state == CLIENT_CONNECTING && c->on_stale)
		c->on_stale(c);
	if (c->state == CLIENT_CONNECTING)
		client_tell(c, TIDEMQ_LOST, &why);
}

void client_connect_lose(struct tidemq_client *c)
{
	bool was_up = c->state == CLIENT_UP;

	if (c->state >= CLIENT_LOST)
		return;
	close_link(c);
	if (has_another(c)) {
		client_request_lose(c);
		c->url_index++;
		c->state = CLIENT_CONNECTING;
		uv_timer_start(&c->timer, on_pause_over, 0, 0);
	} else if (!c->was_up || !c->options.reconnect || is_final(c)) {
		end_client(c);
	} else if (was_up) {
		lose_session(c);
	} else if (is_out_of_time(c)) {
		end_client(c);
	} else {
		client_request_lose(c);
		try_again(c);
	}
}

static void on_heartbeat(uv_timer_t *timer)
{
	struct tidemq_client *c = timer->data;

	if (++c->silent_ticks > SILENT_TICKS_MAX) {
		client_fail(&c->loss, TIDEMQ_ECLOSED,
			    "the connection has ended: nothing came from the broker for "
			    "%" PRId64 " ms",
			    2 * c->options.heartbeat_ms);
		client_connect_lose(c);
		return;
	}
	buf_append_text(&c->out, "\r\n");
	flush_link(c->link);
}

static void start_heartbeat(struct tidemq_client *c)
{
	/* Twice as often as promised: the broker need not be patient. */
	uint64_t every = (uint64_t)c->options.heartbeat_ms / 2;

	c->silent_ticks = 0;
	if (every > 0)
		uv_timer_start(&c->timer, on_heartbeat, every, every);
	else
		uv_timer_stop(&c->timer);
}

static void on_hello(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	const struct tidemq_error fine = { 0 };

	if (reply->status != TIDEMQ_OK) {
		client_fail_remote(&c->loss, TIDEMQ_EREFUSED, slice_from(reply->word),
				   (struct slice){ reply->text, reply->len });
		client_connect_lose(c);
		return;
	}
	mem_free(c->server_info);
	c->server_info = mem_strndup(reply->text, reply->len);
	start_heartbeat(c);
	if (c->was_up) {
		c->state = CLIENT_RESTORING;
		/* With heartbeats a broker that says nothing is noticed by itself. */
		if (c->options.heartbeat_ms == 0)
			uv_timer_start(&c->timer, on_connect_timeout, attempt_ms(c), 0);
		client_restore_begin(c);
		return;
	}
	c->was_up = true;
	c->up_at_ms = uv_now(c->loop);
	c->state = CLIENT_UP;
	c->handlers.on_connected(c, &fine, c->handlers.ctx);
	if (c->state == CLIENT_UP)
		client_tell(c, TIDEMQ_CONNECTED, &fine);
}

void client_connect_resume(struct tidemq_client *c)
{
	c->up_at_ms = uv_now(c->loop);
	c->state = CLIENT_UP;
	if (c->options.heartbeat_ms == 0)
		uv_timer_stop(&c->timer);
	client_restore_subscribe(c);
}

static void on_up(struct tidemq_client *c)
{
	const struct client_url *url = &c->urls[c->url_index];
	struct buf line = { 0 };

	c->state = CLIENT_GREETING;
	buf_append_text(&line, "HELLO");
	encode_option(&line, "user", url->at.user);
	encode_option(&line, "pass", url->at.password);
	if (url->cell)
		encode_option(&line, "cell", url->cell);
	else
		encode_option(&line, "vhost", url->vhost);
	encode_option(&line, "name", c->options.name);
	encode_number(&line, "heartbeat", c->options.heartbeat_ms);
	encode_number(&line, "prefetch", c->options.prefetch);
	client_request_send_own(c, 0, &line, on_hello, NULL);
	buf_deinit(&line);
}
