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

static void write_notes(struct json *j, const char *name, const struct service_note *list,
			unsigned count)
{
	json_member_array(j, name);
	for (unsigned i = 0; i < count; i++) {
		json_object_begin(j);
		json_member_text(j, "code", list[i].code);
		json_member_text(j, "text", list[i].text);
		json_object_end(j);
	}
	json_array_end(j);
}

static int get_ready(struct http_request *q, struct reply *r, struct error *err)
{
	struct buf text = { 0 };
	struct json j = { .out = &text };
	struct service_health health;
	bool is_ready;

	service_health(q->conn->spec.service, &health);
	is_ready = health.reason_count == 0;
	json_object_begin(&j);
	json_member_bool(&j, "ready", is_ready);
	write_notes(&j, "reasons", health.reasons, health.reason_count);
	write_notes(&j, "warnings", health.warnings, health.warning_count);
	json_object_end(&j);
	return answer(q, is_ready ? 200 : 503, &text);
}

const struct http_route http_health_routes[] = {
	{ "GET", "/health/live", NULL, HTTP_NO_LOGIN | HTTP_ANY_HOST, get_live },
	{ "GET", "/health/ready", NULL, HTTP_NO_LOGIN | HTTP_ANY_HOST, get_ready },
	{ 0 },
};
