#include "http_wait.h"

#include <microhttpd.h>

#include "http_engine.h"

/* Of requests in one run of the engine. */
#define RUN_NS UINT64_C(5000000)

void http_wait_begin(struct http_request *q)
{
	if (q->is_suspended)
		return;
	q->is_suspended = true;
	MHD_suspend_connection(q->connection);
}

static void leave_queue(struct http_request *q)
{
	if (!q->queue)
		return;
	TAILQ_REMOVE(&q->queue->waiting, q, waiting_link);
	q->queue = NULL;
}

void http_wait_end(struct http_request *q)
{
	leave_queue(q);
	if (!q->is_suspended)
		return;
	q->is_suspended = false;
	MHD_resume_connection(q->connection);
	http_engine_wake(q->engine);
}

bool http_wait_turn(struct http_request *q)
{
	struct http_engine *e = q->engine;

	if (uv_hrtime() - e->run_ns < RUN_NS)
		return false;
	http_wait_begin(q);
	q->queue = e;
	TAILQ_INSERT_TAIL(&e->waiting, q, waiting_link);
	http_engine_wake(e);
	return true;
}

void http_wait_next(struct http_engine *e)
{
	struct http_request *q;

	while ((q = TAILQ_FIRST(&e->waiting)) != NULL)
		http_wait_end(q);
}

void http_wait_forget(struct http_request *q)
{
	leave_queue(q);
}
