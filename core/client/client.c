#include "client.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "tls/tls.h"

#define CONNECT_TIMEOUT_MS 10000
#define REQUEST_TIMEOUT_MS 30000
#define HEARTBEAT_MIN_MS 1000
#define HEARTBEAT_MAX_MS 3600000
#define WINDOW 1000
#define LEAVE_TIMEOUT_MS 5000
#define PAYLOAD_MAX_BYTES (256u * 1024 * 1024)

const char *tidemq_status_text(int status)
{
	static const char *const texts[] = {
		[-TIDEMQ_OK] = "done",
		[-TIDEMQ_ECONNECT] = "the broker could not be reached",
		[-TIDEMQ_ETIMEDOUT] = "the broker did not answer in time",
		[-TIDEMQ_ECLOSED] = "the connection has ended",
		[-TIDEMQ_EPROTOCOL] = "the other side does not speak the protocol",
		[-TIDEMQ_EINVAL] = "a wrong argument",
		[-TIDEMQ_ENOMEM] = "out of memory",
		[-TIDEMQ_EREFUSED] = "the broker refused the request",
		[-TIDEMQ_EBUSY] = "too many requests are unanswered",
		[-TIDEMQ_ECANCELLED] = "the broker ended the subscription",
		[-TIDEMQ_EEVENT] = "an event",
		[-TIDEMQ_ELOST] = "the connection was lost before the reply",
		[-TIDEMQ_ELEASELOST] = "the message is no longer this client's",
	};

	return status <= 0 && status > -(int)(sizeof(texts) / sizeof(texts[0]))
		       ? texts[-status]
		       : "no such status";
}

int client_fail(struct tidemq_error *err, int status, const char *format, ...)
{
	if (!err)
		return status;
	va_list args;
	va_start(args, format);
	err->status = status;
	err->word[0] = 0;
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return status;
}

int client_fail_refused(struct tidemq_error *err, struct slice word, struct slice text)
{
	bool is_late = slice_is(word, "lease-lost");

	return client_fail_remote(err, is_late ? TIDEMQ_ELEASELOST : TIDEMQ_EREFUSED,
				  word, text);
}

int client_fail_remote(struct tidemq_error *err, int status, struct slice word,
		       struct slice text)
{
	if (!err)
		return status;
	err->status = status;
	snprintf(err->word, sizeof(err->word), "%" SLICE_FMT, SLICE_ARG(word));
	snprintf(err->text, sizeof(err->text), "%" SLICE_FMT, SLICE_ARG(text));
	return status;
}

/* A broker that closes the connection after an ERR says so without being asked. */
static void on_unasked(struct tidemq_client *c, const struct decoder_item *item)
{
	if (item->kind == ITEM_ERR)
		client_fail_remote(&c->loss, TIDEMQ_ECLOSED, item->word, item->text);
	else
		client_fail(&c->loss, TIDEMQ_EPROTOCOL,
			    "the broker sent a reply to no request");
	client_connect_lose(c);
}

static void on_answer(struct tidemq_client *c, const struct decoder_item *item)
{
	struct tidemq_error refusal = { 0 };
	struct tidemq_reply reply = { .word = "",
				      .text = item->text.data,
				      .len = item->text.len,
				      .is_document = item->kind == ITEM_DATA };

	if (item->kind == ITEM_ERR) {
		reply.status = client_fail_refused(&refusal, item->word, item->text);
		reply.word = refusal.word;
	}
	if (!client_request_answer(c, item->channel, &reply))
		on_unasked(c, item);
}

void client_event(struct tidemq_client *c, unsigned channel, const char *text)
{
	if (c->handlers.on_event)
		c->handlers.on_event(c, channel, text, c->handlers.ctx);
}

void client_tell(struct tidemq_client *c, enum tidemq_state state,
		 const struct tidemq_error *why)
{
	if (c->options.on_state)
		c->options.on_state(c, state, why, c->options.on_state_ctx);
}

/* "lease s1 7 500", with the tag that the caller knows. */
static void on_lease(struct tidemq_client *c, unsigned channel, struct slice text)
{
	struct slice rest = text, word = slice_cut(&rest, ' '),
		     sid = slice_cut(&rest, ' ');
	struct buf seen = { 0 };
	uint64_t tag;

	if (!slice_to_uint(slice_cut(&rest, ' '), UINT64_MAX, &tag))
		tag = 0;
	buf_printf(&seen, "%" SLICE_FMT " %" SLICE_FMT " %" PRIu64 " %" SLICE_FMT,
		   SLICE_ARG(word), SLICE_ARG(sid),
		   client_request_see_tag(c, channel, tag), SLICE_ARG(rest));
	client_event(c, channel, buf_cstr(&seen));
	buf_deinit(&seen);
}

static void on_event(struct tidemq_client *c, const struct decoder_item *item)
{
	struct slice rest = item->text, word = slice_cut(&rest, ' '), code = rest;

	if (slice_is(word, "heartbeat"))
		return;
	if (slice_is(word, "lease")) {
		on_lease(c, item->channel, item->text);
		return;
	}
	if (slice_is(word, "closed")) {
		code = slice_cut(&rest, ' ');
		client_fail_remote(&c->farewell, TIDEMQ_ECLOSED, code, rest);
	} else if (slice_is(word, "cancelled")) {
		client_restore_cancel(&c->restore, item->channel, slice_cut(&rest, ' '));
	}
	client_event(c, item->channel, item->text.data);
}

/* The broker waits for the ack, and the caller has had the message. */
static void pass_over_take(struct tidemq_client *c, struct tidemq_msg *m)
{
	struct buf line = { 0 };

	if (m->channel > 0)
		buf_printf(&line, "@%u ", m->channel);
	buf_printf(&line, "ACK %" PRIu64, m->tag);
	if (m->tag > 0)
		client_request_send_own(c, m->channel, &line, NULL, NULL);
	buf_deinit(&line);
	tidemq_msg_free(m);
}

static void on_msg(struct tidemq_client *c, struct tidemq_msg *m)
{
	if (m->has_offset && !client_restore_see(&c->restore, m)) {
		pass_over_take(c, m);
		return;
	}
	if (m->tag > 0)
		m->tag = client_request_see_tag(c, m->channel, m->tag);
	c->handlers.on_msg(c, m, c->handlers.ctx);
}

void client_dispatch(struct tidemq_client *c)
{
	const struct client_link *link = c->link;
	struct decoder_item item;
	struct tidemq_error err;
	int rc;

	while ((rc = decoder_next(&c->decoder, &item, &err)) == TIDEMQ_OK) {
		if (item.kind == ITEM_EVENT)
			on_event(c, &item);
		else if (item.kind == ITEM_MSG)
			on_msg(c, item.msg);
		else
			on_answer(c, &item);
		if (c->link != link)
			return;
	}
	if (rc != TIDE_AGAIN) {
		c->loss = err;
		client_connect_lose(c);
	}
}

/* "duplicate 3:17 topics=1", each of which may be missing. Words of later versions may
 * follow. */
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
	receipt->topics = 1;
	if (slice_has_prefix(rest, "topics=") &&
	    slice_to_uint(slice_skip(slice_cut(&rest, ' '), strlen("topics=")),
			  UINT32_MAX, &number))
		receipt->topics = (unsigned)number;
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

static char *path_of(const char *option, const char *variable)
{
	const char *path = option ? option : getenv(variable);

	return path && path[0] ? mem_strdup(path) : NULL;
}

static int fill_options(struct tidemq_client *c, const struct tidemq_options *options,
			struct tidemq_error *err)
{
	struct tidemq_options *o = &c->options;

	if (options)
		*o = *options;
	o->name = o->name && o->name[0] ? mem_strdup(o->name) : NULL;
	o->tls_ca = path_of(o->tls_ca, "TIDEMQ_TLS_CA");
	o->tls_cert = path_of(o->tls_cert, "TIDEMQ_TLS_CERT");
	o->tls_key = path_of(o->tls_key, "TIDEMQ_TLS_KEY");
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
	if (o->name && !slice_is_name(slice_from(o->name)))
		return client_fail(
			err, TIDEMQ_EINVAL,
			"the client's name must be 1-255 bytes without white space");
	return TIDEMQ_OK;
}

static void free_client(struct tidemq_client *c)
{
	const char *const owned[] = { c->options.name, c->options.tls_ca,
				      c->options.tls_cert, c->options.tls_key };

	client_request_free(c);
	client_restore_deinit(&c->restore);
	decoder_deinit(&c->decoder);
	buf_deinit(&c->out);
	client_url_free(c->urls, c->url_count);
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		mem_free((void *)(uintptr_t)owned[i]);
	tls_context_unref(c->tls);
	mem_free(c->server_info);
	mem_free(c);
}

/* Ids of publishes must differ among all clients, the pauses among those of a broker. */
static void draw_randomness(struct tidemq_client *c)
{
	uint64_t drawn[2] = { uv_hrtime(), (uintptr_t)c };

	/* The call does not fail on a system that has started. */
	if (getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn))
		drawn[0] ^= (uint64_t)getpid() << 32;
	c->id_prefix = drawn[0];
	c->random = drawn[1];
}

static bool has_tls(const struct tidemq_client *c)
{
	for (size_t i = 0; i < c->url_count; i++)
		if (c->urls[i].is_tls)
			return true;
	return false;
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
	if (client_url_parse(url, &c->urls, &c->url_count, err) != TIDEMQ_OK ||
	    fill_options(c, options, err) != TIDEMQ_OK ||
	    (has_tls(c) && client_connect_read_tls(c, err) != TIDEMQ_OK)) {
		free_client(c);
		return NULL;
	}
	draw_randomness(c);
	uv_timer_init(loop, &c->timer);
	uv_prepare_init(loop, &c->flusher);
	c->timer.data = c;
	c->flusher.data = c;
	c->handles = 2;
	client_connect_start(c);
	return c;
}

void client_finish(struct tidemq_client *c)
{
	void (*on_closed)(void *) = c->on_closed;
	void *ctx = c->on_closed_ctx;

	if (c->state != CLIENT_CLOSING || c->handles > 0 || c->links > 0)
		return;
	client_request_fail_all(c);
	free_client(c);
	if (on_closed)
		on_closed(ctx);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct tidemq_client *c = handle->data;

	c->handles--;
	client_finish(c);
}

void client_leave(struct tidemq_client *c)
{
	if (c->leaving)
		client_link_close(c->leaving);
	c->leaving = NULL;
	if (!uv_is_closing((uv_handle_t *)&c->timer))
		uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}

static void on_leave_timeout(uv_timer_t *timer)
{
	client_leave(timer->data);
}

/* Say QUIT behind all that was sent: a connection that only breaks costs the oldest
 * message that it holds a failure. What still comes is read and dropped, since the end
 * of a socket with unread bytes could overtake the QUIT. */
static void say_quit(struct tidemq_client *c)
{
	buf_append_text(&c->out, "QUIT\r\n");
	client_connect_flush(c);
	/* The clock of a blocking client stood still since its last call. */
	uv_update_time(c->loop);
	uv_timer_start(&c->timer, on_leave_timeout, LEAVE_TIMEOUT_MS, 0);
}

void tidemq_close(struct tidemq_client *c, void (*on_closed)(void *ctx), void *ctx)
{
	bool is_up = c->state == CLIENT_UP;

	if (c->state == CLIENT_CLOSING)
		return;
	client_fail(&c->loss, TIDEMQ_ECLOSED, "the client was closed");
	c->state = CLIENT_CLOSING;
	c->on_closed = on_closed;
	c->on_closed_ctx = ctx;
	c->leaving = c->link;
	c->link = NULL;
	uv_close((uv_handle_t *)&c->flusher, on_handle_closed);
	if (is_up)
		say_quit(c);
	else
		client_leave(c);
}

const char *tidemq_server_info(const struct tidemq_client *c)
{
	return c->server_info;
}

const struct tidemq_error *tidemq_last_error(const struct tidemq_client *c)
{
	return &c->error;
}
