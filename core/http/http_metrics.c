#include "http_route.h"

#include "base/exposition.h"
#include "base/mem.h"
#include "http_request_private.h"
#include "http_stream.h"
#include "session/session_metrics.h"

struct scrape {
	struct http_request *request;
	struct session_metrics *metrics;
};

static void on_piece(void *ctx)
{
	struct scrape *s = ctx;

	http_stream_wake(s->request);
}

static int next(void *ctx, struct buf *out, size_t room)
{
	struct scrape *s = ctx;

	return session_metrics_take(s->metrics, out);
}

static void end(void *ctx)
{
	struct scrape *s = ctx;

	session_metrics_end(s->metrics);
	mem_free(s);
}

static bool wants_openmetrics(const struct http_request *q)
{
	const char *accept = http_request_header(q, "Accept");

	return exposition_wants_openmetrics(slice_from(accept ? accept : ""));
}

static int get_metrics(struct http_request *q, struct reply *r, struct error *err)
{
	struct scrape *s = mem_zalloc(sizeof(*s));
	struct metrics_spec spec = {
		.is_per_vhost = http_request_choice(q, "per", "queue or vhost") == 1,
		.is_openmetrics = wants_openmetrics(q),
		.on_piece = on_piece,
		.ctx = s,
	};
	const struct http_source source = {
		.content_type = exposition_content_type(spec.is_openmetrics),
		.next = next,
		.end = end,
		.ctx = s,
	};

	s->request = q;
	if (http_request_check(q, err) < 0 ||
	    session_metrics_start(&s->metrics, http_request_session(q), &spec, err) < 0) {
		mem_free(s);
		return err->code;
	}
	http_stream_start(q, &source);
	return TIDE_OK;
}

const struct http_route http_metrics_routes[] = {
	{ "GET", "/metrics", "per", 0, get_metrics, NULL },
	{ 0 },
};
