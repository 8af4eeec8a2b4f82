#include "http_exchange.h"

#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "session/service_users.h"
#include "http_answer.h"
#include "http_engine.h"
#include "http_login.h"
#include "http_parse.h"
#include "http_relay.h"
#include "http_reply.h"
#include "http_request_private.h"
#include "http_safety.h"
#include "http_wait.h"

/* ---- from the engine, and back to it ---- */

/* "http://HOST:PORT/path?query" is for that host, whatever the header says (RFC 9112,
 * 3.2.2). */
static void read_target(struct http_request *q, const char *target)
{
	const char *host = target;
	struct slice rest;

	if (strncasecmp(target, "http://", 7) == 0)
		host += 7;
	else if (strncasecmp(target, "https://", 8) == 0)
		host += 8;
	/* A user in front of the host would make another name of it. */
	size_t len = host > target ? strcspn(host, "/?@") : 0;
	if (len > 0) {
		q->host = mem_strndup(host, len);
		target = host + len;
	}
	q->target = mem_strdup(target);
	rest = slice_from(q->target);
	q->path = slice_cut(&rest, '?');
	q->query = rest;
	if (q->host && q->path.len == 0)
		q->path = SLICE("/");
}

void *http_exchange_begin(void *cls, const char *target, struct MHD_Connection *c)
{
	struct http_request *q = mem_zalloc(sizeof(*q));

	q->connection = c;
	q->engine = cls;
	q->conn = http_engine_relay(c)->conn;
	if (q->conn) {
		q->conn->request = q;
		q->conn->base.is_busy = true;
	}
	read_target(q, target);
	return q;
}

static const char *header(const struct http_request *q, const char *name)
{
	return MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
}

/* ---- the head
 * --------------------------------------------------------------------------- */

static void refuse_method(struct http_request *q)
{
	char text[HTTP_ALLOW_MAX + 64];

	snprintf(text, sizeof(text), "this path takes %s", q->match.allow);
	http_answer_refuse(q, 405, "unknown-verb", text);
	http_answer_header(q, "Allow", q->match.allow);
}

static void refuse_login(struct http_request *q, const struct error *why)
{
	if (why->code != TIDE_EDENIED) {
		http_answer_error(q, why);
		return;
	}
	/* Another password would not help. */
	if (q->conn->is_shut_out) {
		http_answer_error(q, why);
		return;
	}
	http_answer_refuse(q, 401, "denied",
			   header(q, "Authorization")
				   ? why->text
				   : "log in first: HTTP Basic with user and password");
	/* A page that has its own form for that wants no other by the browser. */
	if (!header(q, "X-Requested-With"))
		http_answer_header(q, "WWW-Authenticate",
				   "Basic realm=\"tidemq\", charset=\"UTF-8\"");
}

static void on_login(void *ctx, const struct error *refusal)
{
	struct http_request *q = ctx;

	if (refusal)
		refuse_login(q, refusal);
	http_wait_end(q);
}

/* Who asks is decided before a byte of the body is kept. */
static void log_in(struct http_request *q)
{
	struct http_login login = {
		.authorization = slice_from(header(q, "Authorization")),
		.vhost = http_request_path(q, "vhost"),
		.must_exist = !(q->match.route->features & HTTP_DECLARES),
		.on_done = on_login,
		.ctx = q,
	};
	struct error err;
	int rc;

	if (q->match.route->features & HTTP_VHOST) {
		login.vhost = http_request_name(q, "vhost");
		/* Not that of the request before. */
		if (!login.vhost.data)
			login.vhost = SLICE("/");
	}
	rc = http_request_check(q, &err);
	if (rc < 0) {
		http_answer_error(q, &err);
		return;
	}
	rc = http_login_start(q->conn, &login, &err);
	if (rc == TIDE_AGAIN)
		http_wait_begin(q);
	else if (rc < 0)
		refuse_login(q, &err);
}

static int check_safety(const struct http_request *q, struct error *err)
{
	const struct http_safety safety = {
		.host = q->host ? q->host : header(q, "Host"),
		.origin = header(q, "Origin"),
		.is_open = service_users_is_open(q->conn->spec.service),
	};

	/* Probes know the broker by all sorts of names. */
	if (q->match.route && q->match.route->features & HTTP_ANY_HOST)
		return TIDE_OK;
	return http_safety_check(&safety, &q->engine->config, err);
}

/* As base64 a payload is longer, and there is something around it. */
static size_t body_max(const struct http_request *q)
{
	size_t payload_max = q->engine->config.payload_max;

	if (q->match.route->features & HTTP_NO_LOGIN)
		return 0;
	return payload_max + payload_max / 2 + ((size_t)64 << 10);
}

static int refuse_length(const struct http_request *q, struct error *err)
{
	return error_set(err, TIDE_ETOOLARGE, "the body exceeds the limit of %zu bytes",
			 body_max(q));
}

/* What it says of its body, before that is waited for. */
static int check_length(const struct http_request *q, struct error *err)
{
	const char *length = header(q, "Content-Length");
	uint64_t n;

	if (!length || !slice_to_uint(slice_from(length), UINT64_MAX, &n) ||
	    n <= body_max(q))
		return TIDE_OK;
	return refuse_length(q, err);
}

static enum MHD_Result count_length(void *cls, enum MHD_ValueKind kind, const char *name,
				    const char *value)
{
	*(unsigned *)cls += strcasecmp(name, "Content-Length") == 0;
	return MHD_YES;
}

/* Whoever stands between must not see another end of the body than we do. */
static bool is_framed(const struct http_request *q)
{
	const char *encoding = header(q, "Transfer-Encoding");
	unsigned lengths = 0;

	MHD_get_connection_values(q->connection, MHD_HEADER_KIND, count_length, &lengths);
	return encoding ? lengths == 0 && strcasecmp(encoding, "chunked") == 0
			: lengths <= 1;
}

static void refuse_framing(struct http_request *q)
{
	q->conn->is_leaving = true;
	http_answer_refuse(q, 400, "syntax",
			   "a body has one Content-Length, or Transfer-Encoding: chunked "
			   "and no length");
}

static void read_head(struct http_request *q, const char *method)
{
	char allow[HTTP_ALLOW_MAX];
	struct error err;

	q->state = HTTP_LOGIN;
	http_route_find(&q->match, method, q->path, allow);
	if (!is_framed(q))
		refuse_framing(q);
	else if (check_safety(q, &err) < 0)
		http_answer_error(q, &err);
	else if (!q->match.route && !q->match.allow)
		http_answer_refuse(q, 404, "not-found", "there is nothing at this path");
	else if (!q->match.route)
		refuse_method(q);
	else if (http_request_decode(q, &err) < 0 || check_length(q, &err) < 0)
		http_answer_error(q, &err);
	else if (!(q->match.route->features & HTTP_NO_LOGIN))
		log_in(q);
}

/* ---- the body
 * ----------------------------------------------------------------------------- */

/* It counts as memory that publishers are held back for. */
static void take_body(struct http_request *q, const char *data, size_t len)
{
	if (q->rc == TIDE_OK && len <= body_max(q) - buf_len(&q->body) &&
	    buf_try_reserve(&q->body, len) == TIDE_OK) {
		buf_append(&q->body, data, len);
		protocol_receive(&q->conn->base, len);
		return;
	}
	q->rc = refuse_length(q, &q->err);
	buf_deinit(&q->body);
}

static bool is_json(const char *type)
{
	static const char json[] = "application/json";
	size_t len = sizeof(json) - 1;

	return type && strncasecmp(type, json, len) == 0 && strchr("; ", type[len]);
}

static int check_body(struct http_request *q, struct error *err)
{
	const char *type = header(q, "Content-Type");

	if (http_request_check(q, err) < 0)
		return err->code;
	if (buf_len(&q->body) == 0)
		return TIDE_OK;
	if (!is_json(type)) {
		http_answer_refuse(q, 415, "syntax",
				   "a body needs Content-Type: application/json");
		return TIDE_OK;
	}
	return http_request_read_body(q, err);
}

/* ---- the work
 * ----------------------------------------------------------------------------- */

static void work(struct http_request *q)
{
	const struct http_route *route = q->match.route;
	struct error err;
	int rc;

	q->state = HTTP_WORK;
	q->conn->receiving_ms = 0;
	/* It becomes messages, which count themselves. */
	if (q->conn->base.is_counted) {
		protocol_received(&q->conn->base);
		session_publish_relieve(http_request_session(q));
	}
	rc = q->response ? TIDE_OK : check_body(q, &err);
	if (q->response)
		return;
	if (rc < 0) {
		http_answer_error(q, &err);
		return;
	}
	if (!(route->features & HTTP_NO_LOGIN)) {
		session_begin(http_request_session(q));
		q->reply = reply_create(http_request_channel(q), false);
	}
	rc = route->handle(q, q->reply, &err);
	if (rc < 0 && q->reply)
		reply_error(q->reply, &err);
	else if (rc < 0)
		http_answer_error(q, &err);
	/* The handler has left it alone. */
	if (q->reply && q->response)
		reply_ok(q->reply);
}

void http_exchange_reply(struct http_conn *c, struct reply *r)
{
	struct http_request *q = c->request;

	if (!q)
		return;
	if (q->reply == r) {
		q->reply = NULL;
		if (!q->on_reply && !q->response)
			http_reply_write(q, r);
	} else if (q->on_reply) {
		q->on_reply(q->on_reply_ctx, r);
	}
	if (q->response)
		http_wait_end(q);
}

static enum MHD_Result answer(struct http_request *q)
{
	enum MHD_Result rc;

	q->state = HTTP_ANSWERED;
	if (q->conn->is_leaving)
		http_answer_header(q, "Connection", "close");
	rc = MHD_queue_response(q->connection, q->status, q->response);
	MHD_destroy_response(q->response);
	q->response = NULL;
	return rc;
}

static bool has_body(const struct http_request *q)
{
	const char *length = header(q, "Content-Length");

	return (length && strcmp(length, "0") != 0) || header(q, "Transfer-Encoding");
}

/* An answer, or the next step towards one. */
static enum MHD_Result go_on(struct http_request *q)
{
	/* Whoever is answered before his body is there is closed. */
	if (q->response && q->state == HTTP_LOGIN && !has_body(q)) {
		q->state = HTTP_BODY;
		return MHD_YES;
	}
	if (q->response)
		return answer(q);
	if (!q->is_suspended && q->state == HTTP_WORK)
		http_wait_begin(q);
	return MHD_YES;
}

enum MHD_Result http_exchange_step(void *cls, struct MHD_Connection *c, const char *url,
				   const char *method, const char *version,
				   const char *data, size_t *len, void **request)
{
	struct http_request *q = *request;

	if (!q || !q->conn)
		return MHD_NO;
	if (*len > 0) {
		take_body(q, data, *len);
		*len = 0;
		return MHD_YES;
	}
	if (q->state == HTTP_HEAD)
		read_head(q, method);
	else if (q->state == HTTP_BODY && !http_wait_turn(q) && !http_parse_begin(q))
		work(q);
	/* The head is done with when nothing is waited for. */
	if (q->state == HTTP_LOGIN && !q->is_suspended && !q->response)
		q->state = HTTP_BODY;
	return go_on(q);
}

/* ---- the end
 * -------------------------------------------------------------------------------- */

static void leave(struct http_request *q)
{
	http_stream_end(q);
	if (q->conn)
		q->conn->request = NULL;
}

void http_exchange_end(void *cls, struct MHD_Connection *c, void **request,
		       enum MHD_RequestTerminationCode why)
{
	struct http_request *q = *request;

	if (!q)
		return;
	leave(q);
	if (q->conn) {
		protocol_received(&q->conn->base);
		http_relay_pull(q->conn->relay);
		if (q->conn->is_leaving)
			q->conn->base.ops->finish(q->conn->base.ctx);
		q->conn->base.ops->wake(q->conn->base.ctx);
	}
	http_wait_forget(q);
	http_parse_forget(q);
	if (q->response)
		MHD_destroy_response(q->response);
	http_request_deinit(q);
	mem_free(q);
	*request = NULL;
}

void http_exchange_drop(struct http_conn *c)
{
	struct http_request *q = c->request;

	if (!q)
		return;
	leave(q);
	q->conn = NULL;
	http_wait_end(q);
}

void http_exchange_stop(struct http_conn *c)
{
	struct http_request *q = c->request;

	c->is_leaving = true;
	if (!q || http_request_is_partial(q)) {
		c->base.is_busy = false;
		c->base.ops->finish(c->base.ctx);
	} else if (q->source.is_endless) {
		http_stream_end(q);
		http_wait_end(q);
	}
}
