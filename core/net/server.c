#include "server.h"

#include "base/mem.h"
#include "host/log.h"
#include "conn.h"
#include "listener.h"

#define TICK_MS 1000

void server_config_init(struct server_config *c)
{
	*c = (struct server_config){
		.connections_max = 20000,
		.payload_max = LINE_PAYLOAD_MAX_DEFAULT,
		.output_high_bytes = (size_t)1 << 20,
		.output_low_bytes = (size_t)256 << 10,
		.write_timeout_ms = 5 * 60 * 1000,
	};
}

static void on_tick(uv_timer_t *timer)
{
	struct server *s = timer->data;
	int64_t now_ms = (int64_t)uv_now(s->loop);
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&s->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		conn_tick(c, now_ms);
	}
}

struct server *server_create(uv_loop_t *loop, struct service *service,
			     const struct server_config *config)
{
	struct server *s = mem_zalloc(sizeof(*s));

	s->loop = loop;
	s->service = service;
	s->config = *config;
	TAILQ_INIT(&s->conns);
	TAILQ_INIT(&s->due);
	out_pool_init(&s->chunks);
	s->read_buf = mem_alloc(LINE_MAX_BYTES + SERVER_READ_BYTES);
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	uv_idle_init(loop, &s->idle);
	s->idle.data = s;
	s->handles = 2;
	uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
	return s;
}

int server_listen(struct server *s, const char *address, char bound[SERVER_ADDRESS_MAX],
		  struct error *err)
{
	return listener_open(s, address, bound, err);
}

void server_due(struct server *s, struct conn *c)
{
	if (c->is_due || c->is_closed)
		return;
	c->is_due = true;
	TAILQ_INSERT_TAIL(&s->due, c, due_link);
}

static void on_idle(uv_idle_t *handle)
{
	/* It keeps the loop from waiting; the turn does the work. */
}

void server_turn(struct server *s)
{
	struct conn *last = TAILQ_LAST(&s->due, conn_list);
	struct conn *c;
	bool is_last;

	/* Those that are due again because of this pass wait for the next one. */
	while ((c = TAILQ_FIRST(&s->due)) != NULL) {
		is_last = c == last;
		c->is_due = false;
		TAILQ_REMOVE(&s->due, c, due_link);
		conn_serve(c);
		if (is_last)
			break;
	}
	if (!TAILQ_EMPTY(&s->due) && !s->is_closing)
		uv_idle_start(&s->idle, on_idle);
	else
		uv_idle_stop(&s->idle);
}

static void close_listeners(struct server *s)
{
	struct listener *l;

	while ((l = s->listeners) != NULL) {
		s->listeners = l->next;
		listener_close(l);
	}
}

void server_drain(struct server *s)
{
	struct conn *c;

	s->is_draining = true;
	close_listeners(s);
	TAILQ_FOREACH (c, &s->conns, link)
		conn_drain(c);
}

bool server_is_drained(const struct server *s)
{
	const struct conn *c;

	TAILQ_FOREACH (c, &s->conns, link)
		if (!conn_is_drained(c))
			return false;
	return true;
}

static void finish_close(struct server *s)
{
	void (*on_closed)(void *ctx) = s->on_closed;
	void *ctx = s->ctx;

	if (!s->is_closing || s->handles > 0 || s->conn_count > 0)
		return;
	pool_deinit(&s->chunks);
	mem_free(s->read_buf);
	mem_free(s);
	on_closed(ctx);
}

void server_conn_gone(struct server *s)
{
	s->conn_count--;
	finish_close(s);
}

void server_handle_closed(struct server *s)
{
	s->handles--;
	finish_close(s);
}

static void on_handle_closed(uv_handle_t *handle)
{
	server_handle_closed(handle->data);
}

void server_close(struct server *s, void (*on_closed)(void *ctx), void *ctx)
{
	struct conn *c;

	s->is_closing = s->is_draining = true;
	s->on_closed = on_closed;
	s->ctx = ctx;
	close_listeners(s);
	uv_close((uv_handle_t *)&s->timer, on_handle_closed);
	uv_close((uv_handle_t *)&s->idle, on_handle_closed);
	while ((c = TAILQ_FIRST(&s->conns)) != NULL) {
		conn_close(c);
		conn_serve(c);
	}
}
