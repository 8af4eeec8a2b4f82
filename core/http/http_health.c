#include "http_route.h"

#include "http_answer.h"
#include "http_conn.h"
#include "http_request_private.h"
#include "session/service_health.h"

static int answer(struct http_request *q, unsigned status, struct buf *text)
{
	buf_append_char(text, '\n');
	http_answer_take(q, status, text);
	return TIDE_OK;
}

/* Whoever gets an answer knows enough. */
static int get_live(struct http_request *q, struct reply *r, struct error *err)
{
	struct buf text = { 0 };
	struct json j = { .out = &text };

	json_object_begin(&j);
	json_member_bool(&j, "live", true);
	json_object_end(&j);
	return answer(q, 200, &text);
}

static int get_ready(struct http_request *q, struct reply *r, struct error *err)
{
	const struct service *s = q->conn->spec.service;
	struct buf text = { 0 };
	struct json j = { .out = &text };

	json_object_begin(&j);
	service_health_write(s, false, &j);
	json_object_end(&j);
	return answer(q, service_health_is_ready(s) ? 200 : 503, &text);
}

const struct http_route http_health_routes[] = {
	{ "GET", "/health/live", NULL, HTTP_NO_LOGIN | HTTP_ANY_HOST, get_live, NULL },
	{ "GET", "/health/ready", NULL, HTTP_NO_LOGIN | HTTP_ANY_HOST, get_ready, NULL },
	{ 0 },
};
