#include "http_route.h"

#include "base/mem.h"
#include "http_events.h"

struct stats_feed {
	struct http_request *request;
	struct buf *out; /* where the reply goes */
	struct error err;
};

static void on_reply(void *ctx, struct reply *r)
{
	struct stats_feed *w = ctx;

	if (r->kind == REPLY_DATA)
		buf_append_slice(w->out, buf_slice(&r->data));
	else
		error_set(&w->err, r->error, "%s", r->text);
}

/* It is asked anew each time: the user may no longer be allowed to. */
static int write_sample(void *ctx, struct buf *out)
{
	struct stats_feed *w = ctx;
	struct reply *r = reply_create(http_request_channel(w->request), false);

	w->out = out;
	w->err.code = TIDE_OK;
	if (session_report_sample(http_request_session(w->request), r, &w->err) < 0)
		reply_error(r, &w->err);
	return w->err.code;
}

/* One that may not ask is told so, and not by a stream that ends. */
static int try_once(struct stats_feed *w, struct error *err)
{
	struct buf first = { 0 };
	int rc = write_sample(w, &first);

	buf_deinit(&first);
	return rc < 0 ? error_set(err, rc, "%s", w->err.text) : TIDE_OK;
}

static int get_events(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits limits = { HTTP_EVENTS_MIN_MS, HTTP_EVENTS_MAX_MS };
	struct http_events events = {
		.every_ms = http_request_duration(q, "every", limits),
		.name = "stats",
		.write = write_sample,
		.end = mem_free,
	};
	struct stats_feed *w;
	int rc;

	if (http_request_check(q, err) < 0)
		return err->code;
	if (!events.every_ms)
		events.every_ms = 2000;
	w = mem_zalloc(sizeof(*w));
	w->request = q;
	events.ctx = w;
	http_request_listen(q, on_reply, w);
	rc = try_once(w, err);
	if (rc < 0)
		mem_free(w);
	else
		http_events_start(q, &events);
	return rc;
}

const struct http_route http_api_events_routes[] = {
	{ "GET", "/api/events", "every", 0, get_events },
	{ 0 },
};
