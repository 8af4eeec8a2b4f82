/* The broker itself over HTTP: who asks, figures, connections, draining. */
#include "http_api.h"
#include "http_request_private.h"

static int whoami(struct http_request *q, struct reply *r, struct error *err)
{
	return session_whoami(http_request_session(q), r, err);
}

static int list_vhosts(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_VHOSTS, r, err);
}

/* The session stays in the vhost that it is in: {name}, not {vhost}. */
static int declare_vhost(struct http_request *q, struct reply *r, struct error *err)
{
	const struct args none = { 0 };
	const struct declare_spec spec = { .kind = DEFINE_VHOST,
					   .name = http_request_path(q, "name"),
					   .args = &none };

	return session_define_declare(http_request_session(q), &spec, r, err);
}

static int delete_vhost(struct http_request *q, struct reply *r, struct error *err)
{
	const struct delete_spec spec = { .kind = DEFINE_VHOST,
					  .name = http_request_path(q, "name") };

	return session_define_delete(http_request_session(q), &spec, r, err);
}

static int stats(struct http_request *q, struct reply *r, struct error *err)
{
	return session_report_stats(http_request_session(q), STATS_ANY, SLICE(""), r,
				    err);
}

/* The last hour of the broker. */
static int history(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_HISTORY, r, err);
}

static int list_connections(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_CONNECTIONS, r, err);
}

static int kill_connection(struct http_request *q, struct reply *r, struct error *err)
{
	struct slice text = http_request_path(q, "connection");
	uint64_t number = 0;

	if (!slice_to_uint(text, UINT64_MAX, &number))
		http_request_refuse(q, "connection", text, "the number of a connection");
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_operate_kill(http_request_session(q), number, r, err);
}

static int drain(struct http_request *q, struct reply *r, struct error *err)
{
	return session_operate_drain(http_request_session(q), true, r, err);
}

static int end_drain(struct http_request *q, struct reply *r, struct error *err)
{
	return session_operate_drain(http_request_session(q), false, r, err);
}

/* Each request that there is, for programs: docs/openapi.json says more. */
static int list_routes(struct http_request *q, struct reply *r, struct error *err)
{
	const struct http_route *route;
	struct json j;

	reply_json(r, &j);
	json_object_begin(&j);
	json_member_array(&j, "routes");
	for (size_t i = 0; (route = http_route_at(i)) != NULL; i++) {
		struct slice names = slice_from(route->names ? route->names : "");

		json_object_begin(&j);
		json_member_text(&j, "method", route->method);
		json_member_text(&j, "path", route->path);
		json_member_array(&j, "parameters");
		while (names.len > 0)
			json_slice(&j, slice_cut(&names, ' '));
		json_array_end(&j);
		json_member_bool(&j, "login", !(route->features & HTTP_NO_LOGIN));
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

const struct http_route http_api_broker_routes[] = {
	{ "GET", "/api", NULL, 0, list_routes },
	{ "GET", "/api/whoami", NULL, 0, whoami },
	{ "GET", "/api/vhosts", HTTP_API_PAGE, HTTP_PAGED, list_vhosts },
	{ "PUT", "/api/vhosts/{name}", NULL, 0, declare_vhost },
	{ "DELETE", "/api/vhosts/{name}", NULL, 0, delete_vhost },
	{ "GET", "/api/stats", NULL, 0, stats },
	{ "GET", "/api/history", "max", 0, history },
	{ "GET", "/api/connections", HTTP_API_PAGE, HTTP_PAGED, list_connections },
	{ "DELETE", "/api/connections/{connection}", NULL, 0, kill_connection },
	{ "POST", "/api/drain", NULL, 0, drain },
	{ "DELETE", "/api/drain", NULL, 0, end_drain },
	{ 0 },
};
