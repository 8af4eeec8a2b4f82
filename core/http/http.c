#include "http.h"

#include "base/container.h"
#include "http_engine.h"
#include "http_exchange.h"
#include "http_request_private.h"
#include "http_websocket.h"

/* What a body must come at. */
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
		http_websocket_feed(c->websocket, data + at, len - at);
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

struct http_engine *http_create(uv_loop_t *loop, const struct http_config *config)
{
	return http_engine_create(loop, config, http_exchange_go_on);
}
