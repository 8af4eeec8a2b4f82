#include "client.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/percent.h"

#define CONNECT_TIMEOUT_MS 5000
#define REQUEST_TIMEOUT_MS 30000
#define HEARTBEAT_MIN_MS 1000
#define HEARTBEAT_MAX_MS 3600000
#define WINDOW 1000
#define PAYLOAD_MAX_BYTES (256u * 1024 * 1024)
#define READ_LEN 65536

static struct client_channel *get_channel(struct tidemq_client *c, unsigned number)
{
	struct client_channel *channel;

	HASH_FIND_INT(c->channels, &number, channel);
	if (channel)
		return channel;
	channel = mem_zalloc(sizeof(*channel));
	channel->number = number;
	TAILQ_INIT(&channel->pending);
	HASH_ADD_INT(c->channels, number, channel);
	return channel;
}

static void expect_reply(struct tidemq_client *c, unsigned channel,
			 tidemq_reply_fn on_reply, void *ctx)
{
	struct pending *p = mem_zalloc(sizeof(*p));

	p->on_reply = on_reply;
	p->ctx = ctx;
	TAILQ_INSERT_TAIL(&get_channel(c, channel)->pending, p, link);
	c->in_flight++;
}

static struct pending *take_pending(struct tidemq_client *c,
				    struct client_channel *channel)
{
	struct pending *p = TAILQ_FIRST(&channel->pending);

	if (!p)
		return NULL;
	TAILQ_REMOVE(&channel->pending, p, link);
	c->in_flight--;
	return p;
}

static void answer(struct tidemq_client *c, struct pending *p,
		   const struct tidemq_reply *reply)
{
	if (p->on_reply)
		p->on_reply(c, reply, p->ctx);
	mem_free(p);
}

struct tidemq_reply client_failed_reply(const struct tidemq_error *err)
{
	return (struct tidemq_reply){ .status = err->status,
				      .word = err->word,
				      .text = err->text,
				      .len = strlen(err->text) };
}

/* The callbacks may send (and are refused) but not free the client. */
static void fail_pending(struct tidemq_client *c)
{
	struct tidemq_reply reply = client_failed_reply(&c->loss);
	struct client_channel *channel, *next;
	struct pending *p;

	reply.status = TIDEMQ_ECLOSED;
	HASH_ITER (hh, c->channels, channel, next)
		while ((p = take_pending(c, channel)))
			answer(c, p, &reply);
}

/* A broker that closes the connection after an ERR says so without being asked. */
static void on_unasked(struct tidemq_client *c, const struct decoder_item *item)
{
	if (item->kind == ITEM_ERR)
		client_fail_remote(&c->loss, TIDEMQ_ECLOSED, item->word, item->text);
	else
		client_fail(&c->loss, TIDEMQ_EPROTOCOL,
			    "the broker sent a reply to no request");
	client_lose(c);
}

static void on_answer(struct tidemq_client *c, const struct decoder_item *item)
{
	struct client_channel *channel = get_channel(c, item->channel);
	struct pending *p = take_pending(c, channel);

	if (!p) {
		on_unasked(c, item);
		return;
	}
	struct tidemq_error refusal = { 0 };
	struct tidemq_reply reply = { .word = "",
				      .text = item->text.data,
				      .len = item->text.len,
				      .is_document = item->kind == ITEM_DATA };
	if (item->kind == ITEM_ERR) {
		reply.status = client_fail_remote(&refusal, TIDEMQ_EREFUSED, item->word,
						  item->text);
		reply.word = refusal.word;
	}
	answer(c, p, &reply);
}

static void on_event(struct tidemq_client *c, const struct decoder_item *item)
{
	struct slice text = item->text, code;

	if (slice_is(text, "heartbeat"))
		return;
	if (slice_has_prefix(text, "closed ")) {
		text = slice_skip(text, strlen("closed "));
		code = slice_cut(&text, ' ');
		client_fail_remote(&c->farewell, TIDEMQ_ECLOSED, code, text);
	}
	if (c->handlers.on_event)
		c->handlers.on_event(c, item->channel, item->text.data, c->handlers.ctx);
}

static void dispatch(struct tidemq_client *c, struct decoder_item *item)
{
	if (item->kind == ITEM_EVENT)
		on_event(c, item);
	else if (item->kind == ITEM_MSG)
		c->handlers.on_msg(c, item->msg, c->handlers.ctx);
	else
		on_answer(c, item);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct tidemq_client *c = handle->data;

	if (buf_try_reserve(&c->decoder.in, READ_LEN) != TIDE_OK) {
		*buf = uv_buf_init(NULL, 0);
		return;
	}
	struct buf *in = &c->decoder.in;
	*buf = uv_buf_init(in->data + in->end, (unsigned)(in->cap - in->end));
}

static void on_end(struct tidemq_client *c, int uv_error)
{
	if (c->farewell.status != TIDEMQ_OK)
		c->loss = c->farewell;
	else
		client_fail(&c->loss, TIDEMQ_ECLOSED, "the connection has ended: %s",
			    uv_error == UV_EOF ? "the broker closed it"
					       : uv_strerror(uv_error));
	client_lose(c);
}

static bool is_alive(const struct tidemq_client *c)
{
	return c->state < CLIENT_LOST;
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct tidemq_client *c = stream->data;

	if (len < 0) {
		on_end(c, (int)len);
		return;
	}
	buf_grow(&c->decoder.in, (size_t)len);
	struct decoder_item item;
	struct tidemq_error err;
	int rc;
	while ((rc = decoder_next(&c->decoder, &item, &err)) == TIDEMQ_OK) {
		dispatch(c, &item);
		if (!is_alive(c))
			return;
	}
	if (rc != TIDE_AGAIN) {
		c->loss = err;
		client_lose(c);
	}
}

static void flush(struct tidemq_client *c);

static void on_written(uv_write_t *req, int status)
{
	struct tidemq_client *c = req->data;

	c->is_writing = false;
	buf_clear(&c->writing);
	if (!is_alive(c))
		return;
	/* What the broker said before it closed is more telling than a broken pipe:
	 * reading goes on and ends by itself. */
	if (status == 0)
		flush(c);
}

static void flush(struct tidemq_client *c)
{
	if (c->is_writing || buf_len(&c->out) == 0)
		return;
	struct buf swap = c->writing;
	c->writing = c->out;
	c->out = swap;
	struct slice bytes = buf_slice(&c->writing);
	uv_buf_t buf = { .base = (char *)(uintptr_t)bytes.data, .len = bytes.len };
	c->write.data = c;
	if (uv_write(&c->write, &c->socket.stream, &buf, 1, on_written) == 0)
		c->is_writing = true;
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct tidemq_client *c = prepare->data;

	uv_prepare_stop(prepare);
	flush(c);
}

/* Everything that is sent in this turn of the loop leaves in one write. */
static void flush_soon(struct tidemq_client *c)
{
	if (c->state != CLIENT_CONNECTING && !uv_is_active((uv_handle_t *)&c->flusher))
		uv_prepare_start(&c->flusher, on_prepare);
}

int client_check(struct tidemq_client *c)
{
	if (c->state > CLIENT_UP) {
		c->error = c->loss;
		return TIDEMQ_ECLOSED;
	}
	if (c->state != CLIENT_UP)
		return client_fail(&c->error, TIDEMQ_EBUSY,
				   "the client is not connected yet");
	if (c->in_flight >= c->options.window)
		return client_fail(
			&c->error, TIDEMQ_EBUSY,
			"%u requests are unanswered, as many as the window allows",
			c->in_flight);
	if (buf_len(&c->out) > CLIENT_OUT_MAX)
		return client_fail(&c->error, TIDEMQ_EBUSY,
				   "the broker does not read: the output buffer is full");
	return TIDEMQ_OK;
}

int tidemq_send(struct tidemq_client *c, const char *line, const void *payload,
		size_t payload_len, tidemq_reply_fn on_reply, void *ctx)
{
	unsigned channel;
	int rc = client_check(c);

	if (rc == TIDEMQ_OK)
		rc = encode_request(&c->out, slice_from(line),
				    (struct slice){ payload, payload_len }, &channel,
				    &c->error);
	if (rc != TIDEMQ_OK)
		return rc;
	expect_reply(c, channel, on_reply, ctx);
	flush_soon(c);
	return TIDEMQ_OK;
}

int tidemq_send_publication(struct tidemq_client *c, unsigned channel,
			    const struct tidemq_publication *p, tidemq_reply_fn on_reply,
			    void *ctx)
{
	int rc = client_check(c);

	if (rc != TIDEMQ_OK)
		return rc;
	struct buf line = { 0 };
	rc = encode_publication(&line, channel, p, &c->error);
	if (rc == TIDEMQ_OK)
		rc = tidemq_send(c, buf_cstr(&line), p->payload, p->payload_len, on_reply,
				 ctx);
	buf_deinit(&line);
	return rc;
}

/* "duplicate 3:17", each of which may be missing. Words of later versions may follow. */
static void read_place(struct slice rest, struct tidemq_receipt *receipt)
{
	struct slice offset = slice_cut(&rest, ' '), partition;
	uint64_t number;

	receipt->is_duplicate = slice_is(offset, "duplicate");
	if (receipt->is_duplicate)
		offset = slice_cut(&rest, ' ');
	partition = slice_cut(&offset, ':');
	if (!slice_to_uint(partition, UINT32_MAX, &number) ||
	    !slice_to_uint(offset, UINT64_MAX - 1, &receipt->offset))
		return;
	receipt->has_offset = true;
	receipt->partition = (unsigned)number;
}

int tidemq_reply_receipt(const struct tidemq_reply *reply, struct tidemq_receipt *receipt)
{
	struct slice rest = { reply->text, reply->len };
	struct slice id = slice_cut(&rest, ' '), count = slice_cut(&rest, ' ');
	uint64_t queues;

	if (reply->status == TIDEMQ_OK && slice_is(id, "queued")) {
		*receipt = (struct tidemq_receipt){ .is_queued = true };
		return TIDEMQ_OK;
	}
	if (reply->status != TIDEMQ_OK || id.len != sizeof(receipt->id) - 1 ||
	    !slice_to_uint(count, UINT32_MAX, &queues))
		return TIDEMQ_EPROTOCOL;
	*receipt = (struct tidemq_receipt){ .queues = (unsigned)queues };
	memcpy(receipt->id, id.data, id.len);
	read_place(rest, receipt);
	return TIDEMQ_OK;
}

static void on_heartbeat(uv_timer_t *timer)
{
	struct tidemq_client *c = timer->data;

	buf_append_text(&c->out, "\r\n");
	flush(c);
}

static void on_hello(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	if (!is_alive(c))
		return;
	if (reply->status != TIDEMQ_OK) {
		client_fail_remote(&c->loss, TIDEMQ_EREFUSED, slice_from(reply->word),
				   (struct slice){ reply->text, reply->len });
		client_lose(c);
		return;
	}
	uv_timer_stop(&c->timer);
	/* Twice as often as promised: the broker need not be patient. */
	uint64_t every = (uint64_t)c->options.heartbeat_ms / 2;
	if (every > 0)
		uv_timer_start(&c->timer, on_heartbeat, every, every);
	c->server_info = mem_strndup(reply->text, reply->len);
	c->state = CLIENT_UP;
	const struct tidemq_error fine = { 0 };
	c->handlers.on_connected(c, &fine, c->handlers.ctx);
}

static void append_option(struct buf *out, const char *name, const char *value)
{
	if (!value)
		return;
	buf_append_char(out, ' ');
	buf_append_text(out, name);
	buf_append_char(out, '=');
	percent_encode(out, slice_from(value));
}

void client_greet(struct tidemq_client *c)
{
	c->state = CLIENT_GREETING;
	struct buf *out = &c->out;
	buf_append_text(out, "HELLO");
	append_option(out, "user", c->url.at.user);
	append_option(out, "pass", c->url.at.password);
	append_option(out, "vhost", c->url.vhost);
	append_option(out, "name", c->name);
	if (c->options.heartbeat_ms > 0)
		buf_printf(out, " heartbeat=%" PRId64, c->options.heartbeat_ms);
	if (c->options.prefetch > 0)
		buf_printf(out, " prefetch=%u", c->options.prefetch);
	buf_append_text(out, "\r\n");
	expect_reply(c, 0, on_hello, NULL);
	int rc = uv_read_start(&c->socket.stream, on_alloc, on_read);
	if (rc != 0)
		on_end(c, rc);
	else
		flush(c);
}

static void on_connect_timeout(uv_timer_t *timer)
{
	struct tidemq_client *c = timer->data;
	char address[URL_ADDRESS_MAX];

	url_address(&c->url.at, address);
	client_fail(&c->loss, TIDEMQ_ETIMEDOUT, "no answer from %s within %" PRId64 " ms",
		    address, c->options.connect_timeout_ms);
	client_lose(c);
}

static int fill_options(struct tidemq_client *c, const struct tidemq_options *options,
			struct tidemq_error *err)
{
	struct tidemq_options *o = &c->options;

	if (options)
		*o = *options;
	if (o->connect_timeout_ms <= 0)
		o->connect_timeout_ms = CONNECT_TIMEOUT_MS;
	if (o->request_timeout_ms == 0)
		o->request_timeout_ms = REQUEST_TIMEOUT_MS;
	if (o->window == 0)
		o->window = WINDOW;
	if (o->payload_max_bytes == 0)
		o->payload_max_bytes = PAYLOAD_MAX_BYTES;
	if (o->heartbeat_ms != 0 &&
	    (o->heartbeat_ms < HEARTBEAT_MIN_MS || o->heartbeat_ms > HEARTBEAT_MAX_MS))
		return client_fail(err, TIDEMQ_EINVAL, "the heartbeat must be %d-%d ms",
				   HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS);
	if (!o->name || !o->name[0])
		return TIDEMQ_OK;
	if (!slice_is_name(slice_from(o->name)))
		return client_fail(
			err, TIDEMQ_EINVAL,
			"the client's name must be 1-255 bytes without white space");
	c->name = mem_strdup(o->name);
	o->name = c->name;
	return TIDEMQ_OK;
}

static void free_client(struct tidemq_client *c)
{
	struct client_channel *channel, *next;

	HASH_ITER (hh, c->channels, channel, next) {
		HASH_DEL(c->channels, channel);
		mem_free(channel);
	}
	if (c->addresses)
		uv_freeaddrinfo(c->addresses);
	decoder_deinit(&c->decoder);
	buf_deinit(&c->out);
	buf_deinit(&c->writing);
	client_url_deinit(&c->url);
	mem_free(c->name);
	mem_free(c->server_info);
	mem_free(c);
}

struct tidemq_client *tidemq_start(struct uv_loop_s *loop, const char *url,
				   const struct tidemq_options *options,
				   const struct tidemq_handlers *handlers,
				   struct tidemq_error *err)
{
	struct tidemq_client *c;

	if (!handlers->on_connected || !handlers->on_msg || !handlers->on_lost) {
		client_fail(err, TIDEMQ_EINVAL,
			    "the handlers on_connected, on_msg and on_lost are required");
		return NULL;
	}
	c = mem_zalloc(sizeof(*c));
	c->loop = loop;
	c->handlers = *handlers;
	if (client_url_parse(url, &c->url, err) != TIDEMQ_OK ||
	    fill_options(c, options, err) != TIDEMQ_OK) {
		free_client(c);
		return NULL;
	}
	decoder_init(&c->decoder, c->options.payload_max_bytes);
	uv_timer_init(loop, &c->timer);
	uv_prepare_init(loop, &c->flusher);
	c->timer.data = c;
	c->flusher.data = c;
	c->handles = 2;
	uv_timer_start(&c->timer, on_connect_timeout,
		       (uint64_t)c->options.connect_timeout_ms, 0);
	dial_start(c);
	return c;
}

void client_finish(struct tidemq_client *c)
{
	if (c->state != CLIENT_CLOSING || c->handles > 0 || c->is_resolving)
		return;
	fail_pending(c);
	void (*on_closed)(void *) = c->on_closed;
	void *ctx = c->on_closed_ctx;
	free_client(c);
	if (on_closed)
		on_closed(ctx);
}

void client_on_handle_closed(uv_handle_t *handle)
{
	struct tidemq_client *c = handle->data;

	c->handles--;
	client_finish(c);
}

static void on_socket_closed(uv_handle_t *handle)
{
	struct tidemq_client *c = handle->data;

	c->socket_is_open = false;
	client_on_handle_closed(handle);
}

static void close_socket(struct tidemq_client *c)
{
	if (c->socket_is_open && !uv_is_closing(&c->socket.handle))
		uv_close(&c->socket.handle, on_socket_closed);
}

void client_lose(struct tidemq_client *c)
{
	if (!is_alive(c))
		return;
	bool was_up = c->state == CLIENT_UP;
	c->state = CLIENT_LOST;
	uv_timer_stop(&c->timer);
	uv_prepare_stop(&c->flusher);
	close_socket(c);
	fail_pending(c);
	if (c->state != CLIENT_LOST)
		return;
	const struct tidemq_error why = c->loss;
	if (was_up)
		c->handlers.on_lost(c, &why, c->handlers.ctx);
	else
		c->handlers.on_connected(c, &why, c->handlers.ctx);
}

void tidemq_close(struct tidemq_client *c, void (*on_closed)(void *ctx), void *ctx)
{
	if (c->state == CLIENT_CLOSING)
		return;
	client_fail(&c->loss, TIDEMQ_ECLOSED, "the client was closed");
	c->state = CLIENT_CLOSING;
	c->on_closed = on_closed;
	c->on_closed_ctx = ctx;
	if (c->is_resolving)
		uv_cancel((uv_req_t *)&c->resolve);
	close_socket(c);
	uv_close((uv_handle_t *)&c->timer, client_on_handle_closed);
	uv_close((uv_handle_t *)&c->flusher, client_on_handle_closed);
}

const char *tidemq_server_info(const struct tidemq_client *c)
{
	return c->server_info;
}

const struct tidemq_error *tidemq_last_error(const struct tidemq_client *c)
{
	return &c->error;
}
