#include "http_request.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <wslay/wslay.h>

#include "base/base64.h"
#include "base/container.h"
#include "base/mem.h"
#include "proto/stomp/stomp.h"

static size_t feed(struct protocol *p, char *data, size_t len);
static void init(struct protocol *p, const struct protocol_spec *spec);
static void heartbeat(struct protocol *p);
static void deinit(struct protocol *p);
static void tell_closed(struct protocol *p, const char *words);

/* STOMP in a WebSocket: GET /stomp.
 *
 * From the answer 101 on what comes is taken out of its frames and given to a protocol
 * inside, whose session is that of the connection. What that protocol writes goes into
 * frames: text where it is UTF-8, else binary. */

/* Of RFC 6455, section 1.3. */
#define ACCEPT_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define PROTOCOLS "Sec-WebSocket-Protocol"
#define ACCEPT_MAX 32
#define KEY_BYTES 16
/* A message has a STOMP frame: a payload, and what stands before it. */
#define HEAD_BYTES ((size_t)128 << 10)

struct http_websocket {
	struct http_conn *conn;
	struct protocol *inner;
	wslay_event_context_ptr frames;
	struct slice raw;   /* of the peer, while it is taken apart */
	struct buf in;      /* out of the frames; the protocol has not taken it */
	struct out out;     /* what the protocol has written, without frames */
	struct buf message; /* the same in one piece */
	bool is_control;    /* the frame that is being read */
	bool is_over;       /* our last frame is written */
};

/* ---- what the protocol writes ---- */

/* The engine of frames has written something. */
static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len,
		       int flags, void *user)
{
	struct http_websocket *w = user;

	out_append(w->conn->base.out, data, len);
	return (ssize_t)len;
}

static void send_frames(struct http_websocket *w)
{
	struct protocol *p = &w->conn->base;

	wslay_event_send(w->frames);
	p->ops->wake(p->ctx);
}

/* The whole frames of STOMP that were written become a message. */
static void flush(struct http_websocket *w)
{
	struct wslay_event_msg message;
	struct iovec vec[1];

	if (w->out.bytes == 0)
		return;
	buf_clear(&w->message);
	while (w->out.bytes > 0) {
		out_iovecs(&w->out, vec, 1);
		buf_append(&w->message, vec[0].iov_base, vec[0].iov_len);
		out_consume(&w->out, vec[0].iov_len);
	}
	message.opcode = slice_is_utf8(buf_slice(&w->message)) ? WSLAY_TEXT_FRAME
							       : WSLAY_BINARY_FRAME;
	message.msg = (const uint8_t *)w->message.data + w->message.start;
	message.msg_length = buf_len(&w->message);
	/* After a close nothing may follow: wslay refuses. */
	wslay_event_queue_msg(w->frames, &message);
	buf_clear(&w->message);
	buf_shrink(&w->message);
	send_frames(w);
}

static void say_goodbye(struct http_websocket *w, unsigned code)
{
	flush(w);
	if (w->is_over)
		return;
	w->is_over = true;
	wslay_event_queue_close(w->frames, (uint16_t)code, NULL, 0);
	send_frames(w);
}

static void op_finish(void *ctx)
{
	struct http_websocket *w = ctx;
	struct protocol *p = &w->conn->base;

	say_goodbye(w, WSLAY_CODE_NORMAL_CLOSURE);
	p->is_silent = w->inner->is_silent;
	p->ops->finish(p->ctx);
}

static void op_kill(void *ctx)
{
	struct http_websocket *w = ctx;
	struct protocol *p = &w->conn->base;

	say_goodbye(w, WSLAY_CODE_POLICY_VIOLATION);
	p->ops->kill(p->ctx);
}

static void op_wake(void *ctx)
{
	struct http_websocket *w = ctx;
	struct protocol *p = &w->conn->base;

	flush(w);
	p->ops->wake(p->ctx);
}

static bool op_can_take(void *ctx)
{
	const struct http_websocket *w = ctx;
	const struct protocol *p = &w->conn->base;

	return !w->is_over && p->ops->can_take(p->ctx);
}

static void op_describe(void *ctx, struct json *out)
{
	const struct http_websocket *w = ctx;
	const struct protocol *p = &w->conn->base;

	p->ops->describe(p->ctx, out);
	json_member_bool(out, "websocket", true);
}

static void op_facts(void *ctx, struct session_peer *out)
{
	const struct http_websocket *w = ctx;
	const struct protocol *p = &w->conn->base;

	p->ops->facts(p->ctx, out);
}

static const struct protocol_ops inner_ops = {
	.finish = op_finish,
	.kill = op_kill,
	.wake = op_wake,
	.can_take = op_can_take,
	.describe = op_describe,
	.facts = op_facts,
};

/* ---- what the peer sends ---- */

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *out, size_t len, int flags,
		       void *user)
{
	struct http_websocket *w = user;
	size_t n = w->raw.len < len ? w->raw.len : len;

	if (n == 0) {
		wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	memcpy(out, w->raw.data, n);
	w->raw = slice_skip(w->raw, n);
	return (ssize_t)n;
}

static void on_frame(wslay_event_context_ptr ctx,
		     const struct wslay_event_on_frame_recv_start_arg *arg, void *user)
{
	struct http_websocket *w = user;

	w->is_control = wslay_is_ctrl_frame(arg->opcode);
}

static void on_piece(wslay_event_context_ptr ctx,
		     const struct wslay_event_on_frame_recv_chunk_arg *arg, void *user)
{
	struct http_websocket *w = user;

	if (!w->is_control)
		buf_append(&w->in, arg->data, arg->data_length);
}

static const struct wslay_event_callbacks callbacks = {
	.recv_callback = on_recv,
	.send_callback = on_send,
	.on_frame_recv_start_callback = on_frame,
	.on_frame_recv_chunk_callback = on_piece,
};

/* The connection looks at these as if they were of the protocol that it knows. */
static void mirror(struct http_websocket *w)
{
	struct protocol *p = &w->conn->base, *inner = w->inner;

	p->is_paused = inner->is_paused;
	p->has_input =
		buf_len(&w->in) > 0 && (inner->is_paused || protocol_is_held(inner));
	p->is_counted = inner->is_counted || inner->msg;
	p->received = inner->received;
	p->heartbeat_in_ms = inner->heartbeat_in_ms;
	p->heartbeat_out_ms = inner->heartbeat_out_ms;
}

static void feed_inner(struct http_websocket *w)
{
	size_t used;

	if (buf_len(&w->in) > 0 && !protocol_is_held(w->inner)) {
		used = w->inner->kind->feed(w->inner, w->in.data + w->in.start,
					    buf_len(&w->in));
		buf_consume(&w->in, used);
		buf_shrink(&w->in);
	}
	mirror(w);
}

static void websocket_feed(struct http_websocket *w, const char *data, size_t len)
{
	struct protocol *p = &w->conn->base;
	int rc = 0;

	w->raw = (struct slice){ data, len };
	while (rc == 0 && w->raw.len > 0 && wslay_event_want_read(w->frames))
		rc = wslay_event_recv(w->frames);
	feed_inner(w);
	/* Send answers to pings, to a close, and to errors. */
	if (wslay_event_want_write(w->frames))
		send_frames(w);
	if (rc == 0 && !wslay_event_get_close_received(w->frames) &&
	    !wslay_event_get_close_sent(w->frames))
		return;
	w->is_over = true;
	p->ops->finish(p->ctx);
}

static void websocket_tell_closed(struct http_websocket *w, const char *words)
{
	w->inner->kind->tell_closed(w->inner, words);
	mirror(w);
}

static void websocket_heartbeat(struct http_websocket *w)
{
	w->inner->kind->heartbeat(w->inner);
}

/* ---- the beginning and the end ---- */

static struct http_websocket *create(struct http_conn *c)
{
	struct http_websocket *w = mem_zalloc(sizeof(*w));
	struct protocol_spec spec = c->spec;

	w->conn = c;
	out_init(&w->out, c->base.out->pool);
	if (wslay_event_context_server_init(&w->frames, &callbacks, w) != 0)
		mem_fail(sizeof(*w));
	wslay_event_config_set_no_buffering(w->frames, 1);
	wslay_event_config_set_max_recv_msg_length(w->frames,
						   spec.payload_max + HEAD_BYTES);
	spec.out = &w->out;
	spec.ops = &inner_ops;
	spec.ctx = w;
	spec.shared = NULL;
	w->inner = mem_alloc(stomp_protocol.size);
	stomp_protocol.init(w->inner, &spec);
	return w;
}

static void websocket_destroy(struct http_websocket *w)
{
	w->is_over = true;
	if (!wslay_event_get_close_received(w->frames))
		session_break(w->inner->session);
	w->inner->kind->deinit(w->inner);
	mem_free(w->inner);
	wslay_event_context_free(w->frames);
	out_deinit(&w->out);
	buf_deinit(&w->in);
	buf_deinit(&w->message);
	mem_free(w);
}

void http_websocket_start(struct http_conn *c)
{
	protocol_deinit(&c->base);
	c->websocket = create(c);
	c->base.session = c->websocket->inner->session;
}

/* ---- GET /stomp ---- */

/* NULL: the peer wants none of ours. */
static const char *choose_protocol(const struct http_request *q)
{
	static const char *const names[] = { "v12.stomp", "v11.stomp", "v10.stomp" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (http_head_has_word(&q->head, PROTOCOLS, names[i]))
			return names[i];
	return NULL;
}

static bool make_accept(const char *key, char out[ACCEPT_MAX])
{
	char bytes[ACCEPT_MAX], text[128];
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned sum_len;
	size_t len;

	if (!key || strlen(key) >= ACCEPT_MAX ||
	    !base64_decode(slice_from(key), BASE64_STANDARD, bytes, &len) ||
	    len != KEY_BYTES)
		return false;
	len = (size_t)snprintf(text, sizeof(text), "%s" ACCEPT_GUID, key);
	if (EVP_Digest(text, len, sum, &sum_len, EVP_sha1(), NULL) != 1)
		return false;
	len = base64_encode((struct slice){ (char *)sum, sum_len }, BASE64_STANDARD, out);
	out[len] = '\0';
	return true;
}

static int get_stomp(struct http_request *q, struct reply *r, struct error *err)
{
	const char *protocol = choose_protocol(q);
	char accept[ACCEPT_MAX];

	if (!http_head_has_word(&q->head, "Upgrade", "websocket") ||
	    !http_head_has_word(&q->head, "Connection", "upgrade")) {
		http_answer_refuse(q, 426, "syntax",
				   "this path is for STOMP in a WebSocket");
		http_answer_header(q, "Upgrade", "websocket");
		return TIDE_OK;
	}
	if (!http_head_has_word(&q->head, "Sec-WebSocket-Version", "13")) {
		http_answer_refuse(q, 426, "syntax", "Sec-WebSocket-Version must be 13");
		http_answer_header(q, "Sec-WebSocket-Version", "13");
		return TIDE_OK;
	}
	if (!make_accept(http_request_header(q, "Sec-WebSocket-Key"), accept))
		return error_set(err, TIDE_ESYNTAX,
				 "Sec-WebSocket-Key must be 16 bytes as base64");
	if (http_request_header(q, PROTOCOLS) && !protocol)
		return error_set(err, TIDE_ESYNTAX,
				 "Sec-WebSocket-Protocol must be v12.stomp, v11.stomp or "
				 "v10.stomp");
	http_answer_begin(q, 101);
	http_answer_header(q, "Upgrade", "websocket");
	http_answer_header(q, "Sec-WebSocket-Accept", accept);
	if (protocol)
		http_answer_header(q, PROTOCOLS, protocol);
	return TIDE_OK;
}

const struct http_route http_websocket_routes[] = {
	{ "GET", "/stomp", "vhost", HTTP_NO_LOGIN, get_stomp, NULL },
	{ 0 },
};

/* The speed at which a body must come. */
#define BODY_BYTES_PER_MS 16
/* Between two requests. */
#define IDLE_MS (120 * 1000)

static struct http_conn *conn_of(void *ctx)
{
	return container_of((struct protocol *)ctx, struct http_conn, base);
}

static void on_reply(void *ctx, unsigned channel, struct reply *r)
{
	http_exchange_reply(conn_of(ctx), r);
}

/* A request subscribes to nothing. */
static void on_deliver(void *ctx, unsigned channel, struct slice sid,
		       const struct delivery *d)
{
}

static void on_event(void *ctx, unsigned channel, const char *what, const char *words)
{
}

static void on_blocked(void *ctx, bool is_blocked, const char *why)
{
	if (!is_blocked)
		protocol_on_progress(ctx);
}

static void on_kill(void *ctx, const char *why)
{
	struct http_conn *c = conn_of(ctx);

	c->is_leaving = true;
	c->base.ops->kill(c->base.ctx);
}

static const struct session_ops session_ops = {
	.on_reply = on_reply,
	.on_deliver = on_deliver,
	.on_event = on_event,
	.on_progress = protocol_on_progress,
	.can_take = protocol_can_take,
	.on_blocked = on_blocked,
	.on_kill = on_kill,
	.describe = protocol_describe,
	.facts = protocol_facts,
};

static void init(struct protocol *p, const struct protocol_spec *spec)
{
	struct http_conn *c = conn_of(p);

	*c = (struct http_conn){
		.spec = *spec,
		.session_ops = &session_ops,
		.engine = spec->shared,
	};
	protocol_init(p, &http_protocol, &session_ops, spec);
	session_publish_hold_never(p->session);
	c->idle_ms = (int64_t)uv_now(c->engine->loop);
}

static void deinit(struct protocol *p)
{
	struct http_conn *c = conn_of(p);

	http_exchange_drop(c);
	if (c->websocket)
		websocket_destroy(c->websocket);
	else
		protocol_deinit(p);
	p->session = NULL;
	buf_deinit(&c->authorization);
	buf_deinit(&c->vhost);
}

static size_t feed(struct protocol *p, char *data, size_t len)
{
	struct http_conn *c = conn_of(p);
	size_t at = 0, used = 1;

	p->is_paused = false;
	while (!c->websocket && at < len && used > 0 && !p->is_paused &&
	       http_exchange_can_take(c)) {
		used = http_exchange_feed(c, data + at, len - at);
		at += used;
		/* Tens of thousands of chunks fit into one read. */
		p->is_paused = at < len && http_engine_is_late(c->engine);
	}
	if (c->websocket) {
		websocket_feed(c->websocket, data + at, len - at);
		return len;
	}
	p->is_full = at < len && !http_exchange_can_take(c);
	return at;
}

/* A request that came still gets its answer. */
static void tell_closed(struct protocol *p, const char *words)
{
	struct http_conn *c = conn_of(p);

	if (c->websocket)
		websocket_tell_closed(c->websocket, words);
	else
		http_exchange_stop(c);
}

/* Of what is in a WebSocket: HTTP has none. */
static void heartbeat(struct protocol *p)
{
	websocket_heartbeat(conn_of(p)->websocket);
}

/* Whoever sends a byte now and then keeps a place that others need. */
static bool is_slow(const struct http_conn *c, int64_t now_ms)
{
	size_t len = c->request ? buf_len(&c->request->body) : 0;
	int64_t may_ms =
		c->engine->config.request_timeout_ms + (int64_t)(len / BODY_BYTES_PER_MS);

	return c->receiving_ms && now_ms - c->receiving_ms > may_ms;
}

static bool is_idle(const struct http_conn *c, int64_t now_ms)
{
	return !c->request && !c->websocket && !c->receiving_ms &&
	       now_ms - c->idle_ms > IDLE_MS;
}

static void tick(struct protocol *p, int64_t now_ms)
{
	struct http_conn *c = conn_of(p);

	/* We take nothing: it is not the peer who takes his time. */
	if (c->receiving_ms && (protocol_is_held(p) || !http_exchange_can_take(c)))
		c->receiving_ms = now_ms;
	else if (is_slow(c, now_ms))
		p->ops->kill(p->ctx);
	else if (is_idle(c, now_ms))
		p->ops->finish(p->ctx);
}

static void sent(struct protocol *p)
{
	if (!conn_of(p)->websocket)
		http_exchange_sent(conn_of(p));
}

const struct protocol_kind http_protocol = {
	.name = "http",
	.size = sizeof(struct http_conn),
	.init = init,
	.deinit = deinit,
	.feed = feed,
	.tell_closed = tell_closed,
	.heartbeat = heartbeat,
	.tick = tick,
	.sent = sent,
};
