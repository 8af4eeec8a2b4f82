/* Exchanges and bindings over HTTP. */
#include "http_api.h"

#define VHOST "/api/vhosts/{vhost}"
#define EXCHANGE VHOST "/exchanges/{exchange}"

static int list(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_EXCHANGES, r, err);
}

static int get(struct http_request *q, struct reply *r, struct error *err)
{
	return session_report_stats(http_request_session(q), STATS_EXCHANGE,
				    http_api_word(q, "exchange"), r, err);
}

static int declare(struct http_request *q, struct reply *r, struct error *err)
{
	struct declare_spec spec = {
		.kind = DEFINE_EXCHANGE,
		.name = http_request_path(q, "exchange"),
		.type = http_api_need_name(q, "type"),
	};

	return http_api_declare(q, &spec, r, err);
}

static int delete (struct http_request *q, struct reply *r, struct error *err)
{
	const struct delete_spec spec = {
		.kind = DEFINE_EXCHANGE,
		.name = http_request_path(q, "exchange"),
		.if_unused = http_request_flag(q, "if-unused"),
	};

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_define_delete(http_request_session(q), &spec, r, err);
}

static int list_bindings(struct http_request *q, struct reply *r, struct error *err)
{
	return http_api_list(q, LIST_BINDINGS, r, err);
}

typedef int bind_fn(struct session *s, const struct bind_spec *spec, struct reply *r,
		    struct error *err);

static int bind_or_unbind(struct http_request *q, bind_fn *run, struct reply *r,
			  struct error *err)
{
	struct args args;
	struct bind_spec spec = {
		.exchange = http_api_need_name(q, "exchange"),
		.dest = http_api_need_name(q, "destination"),
		.pattern = http_request_text(q, "pattern"),
		/* A topic is bound like a queue. */
		.to_exchange =
			http_request_choice(q, "to", "queue, exchange or topic") == 1,
		.args = &args,
	};
	int rc;

	if (slice_is(spec.pattern, "-"))
		spec.pattern = SLICE("");
	if (spec.pattern.len > 0)
		http_request_name(q, "pattern");
	http_request_args(q, "options", &args);
	rc = http_request_check(q, err);
	if (rc == TIDE_OK)
		rc = run(http_request_session(q), &spec, r, err);
	args_deinit(&args);
	return rc;
}

static int bind(struct http_request *q, struct reply *r, struct error *err)
{
	return bind_or_unbind(q, session_define_bind, r, err);
}

static int unbind(struct http_request *q, struct reply *r, struct error *err)
{
	return bind_or_unbind(q, session_define_unbind, r, err);
}

#define BINDING "exchange destination to pattern options"

const struct http_route http_api_exchanges_routes[] = {
	{ "GET", VHOST "/exchanges", HTTP_API_PAGE, HTTP_PAGED, list },
	{ "GET", EXCHANGE, NULL, 0, get },
	{ "PUT", EXCHANGE, "type options update", HTTP_DECLARES, declare },
	{ "DELETE", EXCHANGE, "if-unused", 0, delete },
	{ "GET", VHOST "/bindings", HTTP_API_PAGE " exchange destination to", HTTP_PAGED,
	  list_bindings },
	{ "POST", VHOST "/bindings", BINDING, 0, bind },
	{ "DELETE", VHOST "/bindings", BINDING, 0, unbind },
	{ 0 },
};
