#include "http_parse.h"

#include <uv.h>

#include "base/mem.h"
#include "http_engine.h"

/* From here on another thread is worth it. */
#define LARGE_BYTES ((size_t)16 << 10)

struct http_parse {
	uv_work_t work;
	struct http_request *request; /* NULL: it has ended */
	struct buf body;
	json_t *json;
	struct error err;
	int rc;
};

static void work_parse(uv_work_t *work)
{
	struct http_parse *p = work->data;

	p->rc = http_request_parse(buf_slice(&p->body), &p->json, &p->err);
}

static void on_parsed(uv_work_t *work, int status)
{
	struct http_parse *p = work->data;
	struct http_request *q = p->request;

	if (q) {
		q->parse = NULL;
		q->is_parsed = true;
		q->body = p->body;
		q->json = p->json;
		if (p->rc < 0)
			q->rc = error_set(&q->err, p->rc, "%s", p->err.text);
		http_engine_queue(q);
	} else {
		buf_deinit(&p->body);
		json_decref(p->json);
	}
	mem_free(p);
}

void http_parse_begin(struct http_request *q)
{
	struct http_parse *p;

	if (q->status || q->rc < 0 || buf_len(&q->body) < LARGE_BYTES)
		return;
	p = mem_zalloc(sizeof(*p));
	p->work.data = p;
	p->request = q;
	p->body = q->body;
	q->body = (struct buf){ 0 };
	q->parse = p;
	uv_queue_work(q->conn->engine->loop, &p->work, work_parse, on_parsed);
}

void http_parse_forget(struct http_request *q)
{
	if (q->parse)
		q->parse->request = NULL;
	q->parse = NULL;
}
