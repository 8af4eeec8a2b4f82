#include "http_engine.h"

#include <jansson.h>
#include <time.h>

#include "base/mem.h"
#include "http_lease.h"
#include "http_request_private.h"

/* Of requests in a turn of the loop. */
#define TURN_NS UINT64_C(5000000)

bool http_engine_is_late(struct http_engine *e)
{
	uint64_t now_ns = uv_hrtime();

	/* The clock of the loop stands still within a turn. */
	if (e->turn_ms != uv_now(e->loop)) {
		e->turn_ms = uv_now(e->loop);
		e->turn_ns = now_ns;
	}
	return now_ns - e->turn_ns >= TURN_NS;
}

/* Those that queue up meanwhile wait for the turn after this one. */
static void on_idle(uv_idle_t *idle)
{
	struct http_engine *e = idle->data;
	struct http_request *q, *last = TAILQ_LAST(&e->queue, http_queue);
	bool is_last = false;

	while (!is_last && (q = TAILQ_FIRST(&e->queue)) && !http_engine_is_late(e)) {
		is_last = q == last;
		http_engine_forget(q);
		e->go_on(q);
	}
	if (TAILQ_EMPTY(&e->queue))
		uv_idle_stop(idle);
}

void http_engine_queue(struct http_request *q)
{
	struct http_engine *e = q->conn->engine;

	if (q->is_queued)
		return;
	q->is_queued = true;
	TAILQ_INSERT_TAIL(&e->queue, q, queue_link);
	uv_idle_start(&e->idle, on_idle);
}

void http_engine_forget(struct http_request *q)
{
	if (q->is_queued)
		TAILQ_REMOVE(&q->conn->engine->queue, q, queue_link);
	q->is_queued = false;
}

const char *http_engine_date(struct http_engine *e)
{
	uv_timeval64_t now;
	struct tm tm;
	time_t s;

	uv_gettimeofday(&now);
	if (now.tv_sec == e->date_s)
		return e->date;
	e->date_s = s = now.tv_sec;
	/* The names are English: no locale is set. */
	strftime(e->date, sizeof(e->date), "%a, %d %b %Y %H:%M:%S GMT",
		 gmtime_r(&s, &tm));
	return e->date;
}

struct http_engine *http_engine_create(uv_loop_t *loop, const struct http_config *config,
				       void (*go_on)(struct http_request *q))
{
	struct http_engine *e = mem_zalloc(sizeof(*e));

	json_object_seed(0); /* before there are threads that make objects */
	e->loop = loop;
	e->config = *config;
	e->go_on = go_on;
	TAILQ_INIT(&e->queue);
	uv_idle_init(loop, &e->idle);
	e->idle.data = e;
	e->leases = http_lease_open(loop);
	e->handles = 2;
	return e;
}

static void on_part_closed(void *ctx)
{
	struct http_engine *e = ctx;

	if (--e->handles > 0)
		return;
	e->on_closed(e->ctx);
	mem_free(e);
}

static void on_idle_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

void http_engine_close(struct http_engine *e, void (*on_closed)(void *ctx), void *ctx)
{
	e->on_closed = on_closed;
	e->ctx = ctx;
	uv_close((uv_handle_t *)&e->idle, on_idle_closed);
	http_lease_close(e->leases, on_part_closed, e);
}
