/* Rules over HTTP: what they are and were, candidates, the shadow, the replay. */
#include <jansson.h>

#include "base/mem.h"
#include "http_api.h"
#include "http_request_private.h"

#define RULES "/api/rules"
#define RECENT_DEFAULT 20
#define FAILURES_DEFAULT 100
#define FAILURES_MAX 1000
#define FILES_MAX 1000

#define RULES_HANDLER(name, function)                                               \
	static int name(struct http_request *q, struct reply *r, struct error *err) \
	{                                                                           \
		return function(http_request_session(q), r, err);                   \
	}

RULES_HANDLER(status, session_rules_status)
RULES_HANDLER(history, session_rules_log)
RULES_HANDLER(reload, session_rules_reload)
RULES_HANDLER(shadow_status, session_rules_shadow_status)
RULES_HANDLER(shadow_promote, session_rules_shadow_promote)
RULES_HANDLER(shadow_drop, session_rules_shadow_drop)

static int files(struct http_request *q, struct reply *r, struct error *err)
{
	struct slice hash = http_request_path(q, "hash");

	if (slice_is(hash, "active"))
		hash = SLICE("");
	return session_rules_files(http_request_session(q), hash, r, err);
}

static int rollback(struct http_request *q, struct reply *r, struct error *err)
{
	struct slice hash = http_request_text(q, "hash");

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_rules_rollback(http_request_session(q),
				      hash.data ? hash : SLICE(""), r, err);
}

/* ---- candidates ---- */

static int read_files(json_t *object, struct rules_file *out, struct error *err)
{
	const char *path;
	json_t *text;

	json_object_foreach(object, path, text)
	{
		if (!json_is_string(text))
			return error_set(err, TIDE_ESYNTAX,
					 "files: expected an object that has a text for "
					 "each path");
		*out++ = (struct rules_file){
			slice_from(path),
			{ json_string_value(text), json_string_length(text) },
		};
	}
	return TIDE_OK;
}

static int upload(struct http_request *q, struct reply *r, struct error *err)
{
	json_t *object = json_object_get(http_request_json(q), "files");
	size_t count = json_object_size(object);
	struct rules_file *list;
	int rc;

	if (count == 0 || count > FILES_MAX)
		return error_set(err, TIDE_ESYNTAX,
				 "files: expected an object of 1 to %d files, each with "
				 "its path as the name and its text as the value",
				 FILES_MAX);
	list = mem_alloc(count * sizeof(*list));
	rc = read_files(object, list, err);
	if (rc == TIDE_OK)
		rc = session_rules_upload(http_request_session(q), list, count, r, err);
	mem_free(list);
	return rc;
}

static struct slice read_dir(struct http_request *q)
{
	return http_api_need(q, "dir",
			     "a directory of candidate rules, as an upload names it");
}

static int shadow(struct http_request *q, struct reply *r, struct error *err)
{
	struct slice dir = read_dir(q);
	double share = http_api_share(q, "share");

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_rules_shadow(http_request_session(q), dir, share, r, err);
}

static int replay(struct http_request *q, struct reply *r, struct error *err)
{
	struct slice dir = read_dir(q);

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_rules_replay(http_request_session(q), dir, r, err);
}

static int recent(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits limits = { 1, SESSION_RECENT_MAX };
	uint64_t max = http_request_uint(q, "max", limits, RECENT_DEFAULT);

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_rules_recent(http_request_session(q), (size_t)max, r, err);
}

/* ---- simulations ---- */

static void take_queue_option(struct http_request *q, const char *name, struct args *out)
{
	struct slice value = http_request_text(q, name);

	if (value.data && q->rc == TIDE_OK)
		q->rc = args_add(out, slice_from(name), value);
}

static int simulate_retry(struct http_request *q, struct reply *r, struct error *err)
{
	static const char *const reasons[] = { "nack", "timeout", "gone" };
	const struct number_limits failures = { 1, FAILURES_MAX };
	struct args options, queue_options = { 0 };
	struct retry_spec spec = { .options = &options, .queue_options = &queue_options };
	int rc;

	spec.name = http_api_need_name(q, "name");
	spec.reason = reasons[http_request_choice(q, "reason", "nack, timeout or gone")];
	spec.failures_max =
		(unsigned)http_request_uint(q, "failures", failures, FAILURES_DEFAULT);
	take_queue_option(q, "delivery-limit", &queue_options);
	take_queue_option(q, "ack-timeout", &queue_options);
	http_request_args(q, "options", &options);
	rc = http_request_check(q, err);
	if (rc == TIDE_OK)
		rc = session_rules_simulate(http_request_session(q), &spec, r, err);
	args_deinit(&options);
	args_deinit(&queue_options);
	return rc;
}

static int simulate_login(struct http_request *q, struct reply *r, struct error *err)
{
	static const char *const protocols[] = { "line", "stomp", "http" };
	struct simulate_login what = {
		.user = http_request_text(q, "user"),
		.password = http_request_text(q, "password"),
		.vhost = http_request_name(q, "vhost"),
		.name = http_request_text(q, "name"),
		.address = http_request_text(q, "address"),
		.certificate = http_request_text(q, "certificate"),
		.is_tls = http_request_flag(q, "tls"),
		.is_local = http_request_flag(q, "local"),
	};

	what.protocol = slice_from(
		protocols[http_request_choice(q, "protocol", "line, stomp or http")]);
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_simulate_login(http_request_session(q), &what, r, err);
}

static int simulate_access(struct http_request *q, struct reply *r, struct error *err)
{
	static const char *const kinds[] = { "exchange", "queue", "topic", "lock" };
	struct simulate_access what = {
		.user = http_api_need_name(q, "user"),
		.name = http_api_need_name(q, "name"),
		.vhost = http_request_name(q, "vhost"),
		.address = http_request_text(q, "address"),
	};

	http_api_need(q, "action", "configure, write or read");
	http_api_need(q, "kind", "exchange, queue, topic or lock");
	what.action = (enum simulate_action)http_request_choice(
		q, "action", "configure, write or read");
	what.kind =
		kinds[http_request_choice(q, "kind", "exchange, queue, topic or lock")];
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_simulate_access(http_request_session(q), &what, r, err);
}

static int simulate_declare(struct http_request *q, struct reply *r, struct error *err)
{
	struct args options;
	struct simulate_declare what = { .name = http_api_need_name(q, "name"),
					 .type = http_request_name(q, "type"),
					 .vhost = http_request_name(q, "vhost"),
					 .user = http_request_name(q, "user"),
					 .args = &options };
	int rc;

	http_api_need(q, "kind", "exchange, queue or topic");
	what.kind = (enum define_kind)http_request_choice(q, "kind",
							  "exchange, queue or topic");
	http_request_args(q, "options", &options);
	rc = http_request_check(q, err);
	if (rc == TIDE_OK)
		rc = session_simulate_declare(http_request_session(q), &what, r, err);
	args_deinit(&options);
	return rc;
}

#define LOGIN "user password vhost name address certificate protocol tls local"

const struct http_route http_api_rules_routes[] = {
	{ "GET", RULES, NULL, 0, status },
	{ "GET", RULES "/log", NULL, 0, history },
	{ "GET", RULES "/generations/{hash}", NULL, 0, files },
	{ "POST", RULES "/reload", NULL, 0, reload },
	{ "POST", RULES "/rollback", "hash", 0, rollback },
	{ "PUT", RULES "/candidate", "files", 0, upload },
	{ "POST", RULES "/shadow", "dir share", 0, shadow },
	{ "GET", RULES "/shadow", "vhost", HTTP_VHOST, shadow_status },
	{ "DELETE", RULES "/shadow", NULL, 0, shadow_drop },
	{ "POST", RULES "/shadow/promote", NULL, 0, shadow_promote },
	{ "POST", RULES "/replay", "dir vhost", HTTP_VHOST, replay },
	{ "GET", RULES "/recent", "max vhost", HTTP_VHOST, recent },
	{ "POST", RULES "/simulate/retry",
	  "name reason failures delivery-limit ack-timeout options", 0, simulate_retry },
	{ "POST", RULES "/simulate/login", LOGIN, 0, simulate_login },
	{ "POST", RULES "/simulate/access", "user action kind name vhost address", 0,
	  simulate_access },
	{ "POST", RULES "/simulate/declare", "kind name type vhost user options", 0,
	  simulate_declare },
	{ 0 },
};
