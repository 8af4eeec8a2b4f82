#include "http_health.h"

#include "http_answer.h"

static int get_live(struct http_request *q, struct reply *r, struct error *err)
{
	struct buf text = { 0 };

	buf_append_text(&text, "{\"live\":true}\n");
	http_answer_take(q, 200, &text);
	return TIDE_OK;
}

static int get_ready(struct http_request *q, struct reply *r, struct error *err)
{
	struct buf text = { 0 };

	buf_append_text(&text, "{\"ready\":true,\"reasons\":[]}\n");
	http_answer_take(q, 200, &text);
	return TIDE_OK;
}

const struct http_route http_health_routes[] = {
	{ "GET", "/health/live", NULL, HTTP_NO_LOGIN, get_live },
	{ "GET", "/health/ready", NULL, HTTP_NO_LOGIN, get_ready },
	{ 0 },
};
