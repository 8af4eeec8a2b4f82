#include "redis_stand_in.h"

#include "base/mem.h"
#include "store/redis_conn.h"

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

	while ((r = TAILQ_FIRST(&connection->waiting)) != NULL) {
		TAILQ_REMOVE(&connection->waiting, r, entry);
		answer(r);
	}
}

static void on_idle(uv_idle_t *idle)
{
	struct redis_conn *c = idle->data;

	uv_idle_stop(idle);
	if (c->state != STORE_UP) {
		c->state = STORE_UP;
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
	TAILQ_INIT(&c->waiting);
	uv_idle_init(loop, &c->idle);
	c->idle.data = c;
	uv_idle_start(&c->idle, on_idle);
	connection = c;
	return c;
}

void redis_conn_send(struct redis_conn *c, struct redis_request *r)
{
	TAILQ_INSERT_TAIL(&c->waiting, r, entry);
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
	while ((r = TAILQ_FIRST(&c->waiting)) != NULL) {
		TAILQ_REMOVE(&c->waiting, r, entry);
		r->on_reply(r, NULL);
	}
	uv_close((uv_handle_t *)&c->idle, on_handle_closed);
}

void redis_conn_hurry(struct redis_conn *c)
{
}

/* What only a Redis that is really connected to needs. */

void redis_conn_connect(struct redis_conn *c, struct tls_context *tls)
{
}

void redis_conn_cannot_connect(struct redis_conn *c, const char *why, const char *shown)
{
}

void redis_conn_leave(struct redis_conn *c, const char *why)
{
}

void redis_conn_set_record(struct redis_conn *c, const char *key, const char *probe)
{
}

void redis_conn_move_record(struct redis_conn *from, struct redis_conn *to)
{
}

void redis_conn_take_all(struct redis_conn *c, struct redis_requests *out)
{
}

bool redis_conn_is_silent(const struct redis_conn *c)
{
	return false;
}
