#include "http_websocket.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <wslay/wslay.h>

#include "base/base64.h"
#include "base/mem.h"
#include "http_answer.h"
#include "http_request_private.h"
#include "proto/stomp/stomp.h"

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

/* What has been written, whole frames of STOMP, becomes a message. */
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

void http_websocket_feed(struct http_websocket *w, const char *data, size_t len)
{
	struct protocol *p = &w->conn->base;
	int rc = 0;

	w->raw = (struct slice){ data, len };
	while (rc == 0 && w->raw.len > 0 && wslay_event_want_read(w->frames))
		rc = wslay_event_recv(w->frames);
	feed_inner(w);
	/* Its answers to pings, to a close, and to what is wrong. */
	if (wslay_event_want_write(w->frames))
		send_frames(w);
	if (rc == 0 && !wslay_event_get_close_received(w->frames) &&
	    !wslay_event_get_close_sent(w->frames))
		return;
	w->is_over = true;
	p->ops->finish(p->ctx);
}

void http_websocket_tell_closed(struct http_websocket *w, const char *words)
{
	w->inner->kind->tell_closed(w->inner, words);
	mirror(w);
}

void http_websocket_heartbeat(struct http_websocket *w)
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

void http_websocket_destroy(struct http_websocket *w)
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
	{ "GET", "/stomp", NULL, HTTP_NO_LOGIN, get_stomp, NULL },
	{ 0 },
};
