#include "http.h"

#include "base/container.h"
#include "http_answer.h"
#include "http_engine.h"
#include "http_exchange.h"
#include "http_relay.h"
#include "http_request_private.h"
#include "http_websocket.h"

/* What a body must come at. */
#define BODY_BYTES_PER_MS 16

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
	c->relay = http_relay_create(c->engine, c);
	if (c->relay)
		return;
	http_refuse(p->out, 503, "limit", "no descriptors are left");
	p->ops->finish(p->ctx);
}

static void deinit(struct protocol *p)
{
	struct http_conn *c = conn_of(p);

	http_exchange_drop(c);
	if (c->relay)
		http_relay_close(c->relay);
	if (c->websocket)
		http_websocket_destroy(c->websocket);
	else
		protocol_deinit(p);
	p->session = NULL;
	buf_deinit(&c->authorization);
	buf_deinit(&c->vhost);
}

static size_t feed(struct protocol *p, char *data, size_t len)
{
	struct http_conn *c = conn_of(p);

	p->is_paused = false;
	if (c->websocket) {
		http_websocket_feed(c->websocket, data, len);
		return len;
	}
	if (!c->receiving_ms)
		c->receiving_ms = (int64_t)uv_now(c->engine->loop);
	if (c->relay && len > 0)
		http_relay_feed(c->relay, data, len);
	return len;
}

/* A request that came still gets its answer. */
static void tell_closed(struct protocol *p, const char *words)
{
	struct http_conn *c = conn_of(p);

	if (c->websocket)
		http_websocket_tell_closed(c->websocket, words);
	else
		http_exchange_stop(c);
}

/* Of what is in a WebSocket: HTTP has none. */
static void heartbeat(struct protocol *p)
{
	http_websocket_heartbeat(conn_of(p)->websocket);
}

/* Whoever sends a byte now and then keeps a place that others need. */
static bool is_slow(const struct http_conn *c, int64_t now_ms)
{
	size_t len = c->request ? buf_len(&c->request->body) : 0;
	int64_t may_ms =
		c->engine->config.request_timeout_ms + (int64_t)(len / BODY_BYTES_PER_MS);

	return c->receiving_ms && now_ms - c->receiving_ms > may_ms;
}

static void tick(struct protocol *p, int64_t now_ms)
{
	struct http_conn *c = conn_of(p);
	/* For the password, or an answer: what comes meanwhile is the next request's. */
	bool is_waiting = c->request && c->request->state != HTTP_HEAD &&
			  c->request->state != HTTP_BODY;

	/* We take nothing, or it is not the peer who takes his time. */
	if (c->receiving_ms && (is_waiting || protocol_is_held(p)))
		c->receiving_ms = now_ms;
	else if (is_slow(c, now_ms))
		p->ops->kill(p->ctx);
}

static void sent(struct protocol *p)
{
	struct http_conn *c = conn_of(p);

	if (c->relay)
		http_relay_pull(c->relay);
}

static void ended(struct protocol *p)
{
	struct http_conn *c = conn_of(p);

	if (c->relay)
		http_relay_end(c->relay);
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
	.ended = ended,
};

int http_create(struct http_engine **out, uv_loop_t *loop,
		const struct http_config *config, struct error *err)
{
	static const struct http_engine_hooks hooks = {
		.begin = http_exchange_begin,
		.step = http_exchange_step,
		.end = http_exchange_end,
	};

	return http_engine_create(out, loop, config, &hooks, err);
}

void http_refuse(struct out *out, unsigned status, const char *code, const char *text)
{
	struct buf body = { 0 }, head = { 0 };

	http_answer_write_error(&body, code, text);
	buf_printf(&head,
		   "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\n"
		   "Content-Length: %zu\r\nConnection: close\r\n\r\n",
		   status, MHD_get_reason_phrase_for(status), buf_len(&body));
	out_append_slice(out, buf_slice(&head));
	out_append_slice(out, buf_slice(&body));
	buf_deinit(&head);
	buf_deinit(&body);
}
