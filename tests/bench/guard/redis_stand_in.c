#include "redis_stand_in.h"

#include "base/mem.h"
#include "store/redis_conn.h"

struct redis_conn {
	uv_idle_t idle; /* runs when there is something to tell from the loop */
	struct redis_conn_hooks hooks;
	struct redis_requests pending;
	struct store_stats stats;
	struct redis_trouble trouble;
	struct redis_hello hello;
	bool is_up;
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

static struct redis_conn *connection;

static void answer(struct redis_request *r)
{
	static const redisReply nothing = { .type = REDIS_REPLY_ARRAY };
	unsigned replies = r->replies;

	/* After the last reply the request is its owner's. */
	for (r->answered = 1; replies > 0; replies--) {
		r->on_reply(r, &nothing);
		if (replies > 1)
			r->answered++;
	}
}

void redis_stand_in_answer(void)
{
	struct redis_request *r;

	while ((r = TAILQ_FIRST(&connection->pending)) != NULL) {
		TAILQ_REMOVE(&connection->pending, r, entry);
		answer(r);
	}
}

static void on_idle(uv_idle_t *idle)
{
	struct redis_conn *c = idle->data;

	uv_idle_stop(idle);
	if (!c->is_up) {
		c->is_up = true;
		c->hooks.on_state(c->hooks.ctx, STORE_UP, "a stand-in");
	}
	redis_stand_in_answer();
}

struct redis_conn *redis_conn_create(uv_loop_t *loop,
				     const struct redis_conn_config *config,
				     const struct redis_conn_hooks *hooks)
{
	struct redis_conn *c = mem_zalloc(sizeof(*c));

	c->hooks = *hooks;
	TAILQ_INIT(&c->pending);
	uv_idle_init(loop, &c->idle);
	c->idle.data = c;
	uv_idle_start(&c->idle, on_idle);
	connection = c;
	return c;
}

void redis_conn_send(struct redis_conn *c, struct redis_request *r)
{
	TAILQ_INSERT_TAIL(&c->pending, r, entry);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct redis_conn *c = handle->data;

	c->on_closed(c->closed_ctx);
	mem_free(c);
}

void redis_conn_close(struct redis_conn *c, int64_t grace_ms,
		      void (*on_closed)(void *ctx), void *ctx)
{
	struct redis_request *r;

	c->on_closed = on_closed;
	c->closed_ctx = ctx;
	while ((r = TAILQ_FIRST(&c->pending)) != NULL) {
		TAILQ_REMOVE(&c->pending, r, entry);
		r->on_reply(r, NULL);
	}
	uv_close((uv_handle_t *)&c->idle, on_handle_closed);
}

void redis_conn_hurry(struct redis_conn *c)
{
}

const struct redis_holder *redis_conn_holder(const struct redis_conn *c)
{
	return NULL;
}

const struct redis_hello *redis_conn_hello(const struct redis_conn *c)
{
	return &c->hello;
}

const struct store_stats *redis_conn_stats(const struct redis_conn *c)
{
	return &c->stats;
}

const struct redis_trouble *redis_conn_trouble(const struct redis_conn *c)
{
	return &c->trouble;
}
