#include "http_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <uv.h>

#include "base/base64.h"
#include "base/mem.h"
#include "http_answer.h"
#include "http_engine.h"
#include "http_reply.h"
#include "http_safety.h"
#include "http_websocket.h"

struct http_login {
	struct slice authorization; /* the header; data == NULL: none */
	struct slice vhost;         /* data == NULL: the path has none */
	bool must_exist;            /* the vhost, also if a grant names it */
};

static void work(struct http_request *q);

/* A body that is larger is read as JSON by a thread: that takes some 40 ms for each MiB.
 */
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

/* The body is there. A small one is read when the request is worked on. Another has its
 * JSON, or an error, when `parse` is NULL and the request is queued. */
static void http_parse_begin(struct http_request *q)
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

static void http_parse_forget(struct http_request *q)
{
	if (q->parse)
		q->parse->request = NULL;
	q->parse = NULL;
}

/* Who sends a request: a user by HTTP Basic, or a token.
 *
 * The session of a connection stays for as long as its requests say the same. */

/* ---- what the header says ---- */

struct credentials {
	char *room;
	size_t room_len;
	struct slice user, password; /* data == NULL: not given */
};

/* The rest behind "Basic ". */
static bool has_scheme(struct slice text, const char *scheme, struct slice *rest)
{
	size_t len = strlen(scheme);

	if (text.len <= len || strncasecmp(text.data, scheme, len) != 0 ||
	    text.data[len] != ' ')
		return false;
	*rest = slice_skip(text, len + 1);
	while (slice_has_prefix(*rest, " "))
		*rest = slice_skip(*rest, 1);
	return true;
}

static int read_basic(struct slice text, struct credentials *out, struct error *err)
{
	struct slice both;
	size_t len;

	out->room_len = text.len;
	out->room = mem_alloc(text.len + 1);
	if (!base64_decode(text, BASE64_STANDARD, out->room, &len))
		return error_set(err, TIDE_EDENIED,
				 "Authorization: Basic needs base64 of user:password");
	both = (struct slice){ out->room, len };
	if (slice_find(both, ':') == len)
		return error_set(err, TIDE_EDENIED,
				 "Authorization: Basic needs a ':' between user and "
				 "password");
	out->user = slice_cut(&both, ':');
	out->password = both;
	/* As a client of the line protocol leaves it out. */
	if (out->user.len == 0)
		out->user.data = NULL;
	return TIDE_OK;
}

static int read_credentials(struct slice text, struct credentials *out, struct error *err)
{
	struct slice rest;

	*out = (struct credentials){ 0 };
	if (!text.data)
		return TIDE_OK;
	if (has_scheme(text, "Basic", &rest))
		return read_basic(rest, out, err);
	if (has_scheme(text, "Bearer", &rest)) {
		out->password = rest; /* a token, for a script of auth/ */
		return TIDE_OK;
	}
	return error_set(err, TIDE_EDENIED,
			 "Authorization must be Basic with user and password, or Bearer "
			 "with a token");
}

static void forget_credentials(struct credentials *c)
{
	if (c->room)
		explicit_bzero(c->room, c->room_len);
	mem_free(c->room);
}

/* ---- the session ---- */

static bool is_same(const struct buf *kept, struct slice now)
{
	return slice_is_equal(buf_slice(kept), now);
}

static bool is_in(const struct http_conn *c, const struct http_login *l)
{
	struct error ignored;

	return c->is_in && is_same(&c->authorization, l->authorization) &&
	       (!l->vhost.data || is_same(&c->vhost, l->vhost)) &&
	       session_login_check(c->base.session, &ignored) == TIDE_OK;
}

static void keep(struct buf *to, struct slice text)
{
	buf_clear(to);
	buf_append_slice(to, text);
}

static void on_done(void *ctx, struct reply *r, const struct error *refusal)
{
	struct http_conn *c = ctx;

	c->is_deciding = false;
	c->is_in = !refusal;
	if (refusal)
		c->refusal = *refusal;
	else
		keep(&c->vhost, session_facts(c->base.session).vhost);
	c->is_shut_out = session_is_shut_out(c->base.session);
	/* The reply is that of the login alone. */
	reply_ok(r);
	if (c->request)
		http_engine_queue(c->request);
}

/* Another client, for all that the broker knows. */
static void replace_session(struct http_conn *c)
{
	struct protocol *p = &c->base;

	session_destroy(p->session);
	p->session = session_create(c->spec.service, c->session_ops, p);
	session_allowance_set_address(p->session, c->spec.address);
	session_publish_hold_never(p->session);
}

/* A session that nobody has tried to log in. */
static void renew(struct http_conn *c, const struct http_login *l)
{
	if (c->is_used)
		replace_session(c);
	c->is_used = true;
	c->is_in = false;
	keep(&c->authorization, l->authorization);
	keep(&c->vhost, l->vhost.data ? l->vhost : SLICE("/"));
}

static void start(struct http_conn *c, const struct http_login *l,
		  const struct credentials *who)
{
	struct reply *r;
	struct session_login login = {
		.on_done = on_done,
		.ctx = c,
		.user = who->user,
		.password = who->password,
		.must_exist = l->must_exist,
		.is_any_vhost = !l->vhost.data,
	};

	renew(c, l);
	login.vhost = buf_slice(&c->vhost);
	c->is_deciding = true;
	r = reply_create(session_channel(c->base.session, 0), true);
	if (session_login_start(c->base.session, &login, r, &c->refusal) == TIDE_OK)
		return;
	c->is_deciding = false;
	reply_ok(r);
}

/* The session becomes one that the request may use, or `refusal` says why not. While that
 * `is_deciding` the request waits; then it is queued. */
static void http_login_start(struct http_conn *c, const struct http_login *l)
{
	struct credentials who;

	if (is_in(c, l))
		return;
	c->is_shut_out = false;
	if (read_credentials(l->authorization, &who, &c->refusal) == TIDE_OK)
		start(c, l, &who);
	forget_credentials(&who);
}

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

/* ---- the head ---- */

static void refuse_method(struct http_request *q)
{
	char text[HTTP_ALLOW_MAX + 64];

	snprintf(text, sizeof(text), "this path takes %s", q->match.allow);
	http_answer_refuse(q, 405, "unknown-verb", text);
	http_answer_header(q, "Allow", q->match.allow);
}

static void refuse_login(struct http_request *q, const struct error *why)
{
	/* Another password would not help. */
	if (why->code != TIDE_EDENIED || q->conn->is_shut_out) {
		http_answer_error(q, why);
		return;
	}
	http_answer_refuse(q, 401, "denied",
			   http_request_header(q, "Authorization")
				   ? why->text
				   : "log in first: HTTP Basic with user and password");
	/* A page that has its own form for that wants no other by the browser. */
	if (!http_request_header(q, "X-Requested-With"))
		http_answer_header(q, "WWW-Authenticate",
				   "Basic realm=\"tidemq\", charset=\"UTF-8\"");
}

/* Who asks is decided before a byte of the body is kept. */
static void log_in(struct http_request *q)
{
	struct http_login login = {
		.authorization = slice_from(http_request_header(q, "Authorization")),
		.vhost = http_request_path(q, "vhost"),
		.must_exist = !(q->match.route->features & HTTP_DECLARES),
	};

	if (q->match.route->features & HTTP_VHOST) {
		login.vhost = http_request_name(q, "vhost");
		/* Not that of the request before. */
		if (!login.vhost.data)
			login.vhost = SLICE("/");
	}
	if (http_request_check(q, &q->conn->refusal) == TIDE_OK)
		http_login_start(q->conn, &login);
}

/* As base64 a payload is longer, and there is something around it. */
static size_t body_max(const struct http_request *q)
{
	size_t payload_max = q->conn->engine->config.payload_max;

	if (q->match.route->features & HTTP_NO_LOGIN)
		return 0;
	return payload_max + payload_max / 2 + ((size_t)64 << 10);
}

static const struct error *refuse_length(const struct http_request *q, struct error *err)
{
	error_set(err, TIDE_ETOOLARGE, "the body exceeds the limit of %zu bytes",
		  body_max(q));
	return err;
}

/* The request itself is asked about its path, its method and its login. */
static void answer_preflight(struct http_request *q)
{
	http_answer_begin(q, 204);
	http_answer_header(q, "Access-Control-Allow-Methods",
			   "GET, HEAD, POST, PUT, DELETE");
	http_answer_header(
		q, "Access-Control-Allow-Headers",
		"Authorization, Content-Type, If-None-Match, X-Requested-With");
	http_answer_header(q, "Access-Control-Max-Age", "600");
}

static void read_head(struct http_request *q)
{
	char allow[HTTP_ALLOW_MAX];
	struct error err;

	q->conn->refusal.code = TIDE_OK;
	http_route_find(&q->match, q->head.method, q->path, allow);
	if (http_safety_check(q, &err) < 0)
		http_answer_error(q, &err);
	else if (http_safety_is_preflight(q))
		answer_preflight(q);
	else if (!q->match.route && !q->match.allow)
		http_answer_refuse(q, 404, "not-found", "there is nothing at this path");
	else if (!q->match.route)
		refuse_method(q);
	else if (http_request_decode(q, &err) < 0)
		http_answer_error(q, &err);
	else if (q->head.length > body_max(q))
		http_answer_error(q, refuse_length(q, &err));
	else if (!(q->match.route->features & HTTP_NO_LOGIN))
		log_in(q);
}

/* ---- the body ---- */

static size_t missing(const struct http_request *q)
{
	size_t len = buf_len(&q->body);

	return q->head.is_chunked ? protocol_missing_unknown(len, body_max(q))
				  : (size_t)q->head.length - len;
}

static void take_body(struct http_request *q, struct slice piece)
{
	if (piece.len == 0)
		return;
	if (q->rc == TIDE_OK && piece.len <= body_max(q) - buf_len(&q->body) &&
	    buf_try_reserve(&q->body, piece.len) == TIDE_OK) {
		buf_append_slice(&q->body, piece);
		protocol_receive(&q->conn->base, piece.len, missing(q));
		return;
	}
	q->rc = refuse_length(q, &q->err)->code;
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
	const char *type = http_request_header(q, "Content-Type");

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

/* ---- the work ---- */

static void work(struct http_request *q)
{
	const struct http_route *route = q->match.route;
	struct error err;
	int rc;

	q->conn->receiving_ms = 0;
	/* It becomes messages, which count themselves. */
	protocol_received(&q->conn->base);
	rc = q->status ? TIDE_OK : check_body(q, &err);
	if (q->status)
		return;
	if (rc < 0) {
		http_answer_error(q, &err);
		return;
	}
	if (!(route->features & HTTP_NO_LOGIN)) {
		session_begin(http_request_session(q));
		q->reply = reply_create(http_request_channel(q), false);
	}
	rc = route->operation ? http_api_run(q, q->reply, &err)
			      : route->handle(q, q->reply, &err);
	if (rc < 0 && q->reply)
		reply_error(q->reply, &err);
	else if (rc < 0)
		http_answer_error(q, &err);
	/* The handler has left it alone. */
	if (q->reply && q->status)
		reply_ok(q->reply);
}

void http_exchange_reply(struct http_conn *c, struct reply *r)
{
	struct http_request *q = c->request;

	if (!q)
		return;
	if (q->reply == r) {
		q->reply = NULL;
		if (!q->on_reply && !q->status)
			http_reply_write(q, r);
	} else if (q->on_reply) {
		q->on_reply(q->on_reply_ctx, r);
	}
	/* In the middle of the handler there is no need. */
	if (q->state == HTTP_WORK)
		http_engine_queue(q);
}

/* ---- the answer ---- */

static void begin_answer(struct http_request *q)
{
	http_answer_write_head(q);
	if (q->status != 101 && strcmp(q->head.method, "HEAD") != 0)
		return;
	q->left.len = q->conn->base.kept = 0;
	q->is_in_pieces = false;
	http_stream_end(q);
}

static bool has_room(const struct http_request *q)
{
	return q->conn->base.out->bytes < HTTP_OUTPUT_MAX;
}

/* Some more of it; false: that was all. */
static bool write_more(struct http_request *q)
{
	size_t len = q->left.len < HTTP_OUTPUT_MAX ? q->left.len : HTTP_OUTPUT_MAX;

	if (q->is_in_pieces)
		return http_stream_write(q);
	out_append(q->conn->base.out, q->left.data, len);
	q->left = slice_skip(q->left, len);
	q->conn->base.kept = q->left.len;
	return q->left.len > 0;
}

static void forget_request(struct http_request *q)
{
	struct http_conn *c = q->conn;

	http_stream_end(q);
	http_engine_forget(q);
	http_parse_forget(q);
	protocol_received(&c->base);
	c->request = NULL;
	c->base.kept = 0;
	c->receiving_ms = 0;
	c->idle_ms = (int64_t)uv_now(c->engine->loop);
	c->base.is_busy = false;
	http_request_deinit(q);
	mem_free(q);
}

static void end(struct http_request *q)
{
	struct http_conn *c = q->conn;
	bool is_upgrade = q->status == 101;

	forget_request(q);
	if (is_upgrade)
		http_websocket_start(c);
	else if (c->is_leaving)
		c->base.ops->finish(c->base.ctx);
}

/* ---- from state to state ---- */

static bool has_body(const struct http_request *q)
{
	return q->coming.state != HTTP_BODY_DONE;
}

static void begin_body(struct http_request *q)
{
	if (has_body(q) && q->head.is_expected)
		out_append(q->conn->base.out, CONTINUE, sizeof(CONTINUE) - 1);
	q->state = HTTP_BODY;
}

/* It has what it waited for. */
static bool is_ready(const struct http_request *q)
{
	switch (q->state) {
	case HTTP_LOGIN:
		return !q->conn->is_deciding;
	case HTTP_BODY:
		return !has_body(q);
	case HTTP_PARSE:
		return !q->parse;
	case HTTP_WORK:
		return q->status != 0;
	case HTTP_ANSWER:
		return has_room(q) && !q->is_source_idle;
	default:
		return true;
	}
}

/* False: it is done with. */
static bool step(struct http_request *q)
{
	switch (q->state) {
	case HTTP_HEAD:
		read_head(q);
		q->state = HTTP_LOGIN;
		return true;
	case HTTP_LOGIN:
		if (q->conn->refusal.code < 0)
			refuse_login(q, &q->conn->refusal);
		/* Whoever is answered before his body is there is closed. */
		if (q->status && has_body(q)) {
			q->conn->is_leaving = true;
			q->state = HTTP_WORK;
		} else {
			begin_body(q);
		}
		return true;
	case HTTP_BODY:
		http_parse_begin(q);
		q->state = HTTP_PARSE;
		return true;
	case HTTP_PARSE:
		work(q);
		q->state = HTTP_WORK;
		return true;
	case HTTP_WORK:
		begin_answer(q);
		q->state = HTTP_ANSWER;
		return true;
	default:
		return write_more(q);
	}
}

/* Its rest may never come, and then it gets no answer. */
static bool is_partial(const struct http_request *q)
{
	return q->state == HTTP_BODY && has_body(q);
}

bool http_exchange_can_take(const struct http_conn *c)
{
	if (c->request)
		return is_partial(c->request);
	return !c->is_leaving && c->base.out->bytes < HTTP_OUTPUT_MAX;
}

/* Send what was written, and go on with input that was held back. */
static void wake(struct http_conn *c)
{
	if (c->websocket || http_exchange_can_take(c))
		c->base.is_full = false;
	c->base.ops->wake(c->base.ctx);
}

void http_exchange_go_on(struct http_request *q)
{
	struct http_conn *c = q->conn;
	bool has_ended = false;

	while (!has_ended && is_ready(q)) {
		if (http_engine_is_late(c->engine)) {
			http_engine_queue(q);
			break;
		}
		has_ended = !step(q);
	}
	if (has_ended)
		end(q);
	else
		c->base.is_busy = !is_partial(q);
	wake(c);
}

/* ---- from the connection ---- */

static void refuse(struct http_conn *c, const char *why)
{
	unsigned status = (unsigned)strtoul(why, NULL, 10);
	bool is_too_long = status == 414 || status == 431;

	if (c->request)
		forget_request(c->request);
	c->is_leaving = true;
	http_answer_whole(c->base.out, status, is_too_long ? "too-long" : "syntax",
			  why + 4);
	c->base.ops->finish(c->base.ctx);
}

static void begin(struct http_conn *c, const char *data, size_t len)
{
	struct http_request *q = mem_zalloc(sizeof(*q));
	const char *why;

	q->conn = c;
	q->text = mem_strndup(data, len);
	c->request = q;
	why = http_head_read(&q->head, q->text);
	if (why) {
		refuse(c, why);
		return;
	}
	http_body_init(&q->coming, &q->head);
	q->query = slice_from(q->head.target);
	q->path = slice_cut(&q->query, '?');
	c->is_leaving |= q->head.is_last;
	http_exchange_go_on(q);
}

static size_t feed_head(struct http_conn *c, const char *data, size_t len)
{
	const char *why;
	size_t head_len;

	/* Some clients send an empty line behind a body. */
	if (c->scan.at == 0 && data[0] == '\r' && (len == 1 || data[1] == '\n'))
		return len == 1 ? 0 : 2;
	if (!c->receiving_ms)
		c->receiving_ms = (int64_t)uv_now(c->engine->loop);
	why = http_head_scan(&c->scan, (struct slice){ data, len }, HTTP_HEAD_MAX,
			     &head_len);
	if (why)
		refuse(c, why);
	if (head_len == 0)
		return 0;
	c->scan = (struct http_scan){ 0 };
	begin(c, data, head_len);
	return head_len;
}

static size_t feed_body(struct http_conn *c, char *data, size_t len)
{
	struct http_request *q = c->request;
	struct slice piece;
	size_t used;
	const char *why = http_body_feed(&q->coming, data, len, &used, &piece);

	if (why) {
		refuse(c, why);
		return 0;
	}
	take_body(q, piece);
	if (!has_body(q))
		http_exchange_go_on(q);
	return used;
}

size_t http_exchange_feed(struct http_conn *c, char *data, size_t len)
{
	return c->request ? feed_body(c, data, len) : feed_head(c, data, len);
}

void http_exchange_sent(struct http_conn *c)
{
	if (c->request && c->request->state == HTTP_ANSWER && is_ready(c->request))
		http_engine_queue(c->request);
	else if (c->base.is_full)
		wake(c);
}

void http_exchange_drop(struct http_conn *c)
{
	if (c->request)
		forget_request(c->request);
}

void http_exchange_stop(struct http_conn *c)
{
	struct http_request *q = c->request;

	c->is_leaving = true;
	if (!q || is_partial(q)) {
		c->base.ops->finish(c->base.ctx);
	} else if (q->source.is_endless) {
		http_stream_end(q);
		http_stream_wake(q);
	}
}
