#include "http_request.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/base64.h"
#include "base/mem.h"
#include "session/service_users.h"

static bool is_known(const char *name, const struct http_config *config);

/* The page loads nothing from elsewhere, and nobody shows it inside of his. */
#define CONTENT_POLICY                                                                   \
	"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

static const char fixed_headers[] = "X-Content-Type-Options: nosniff\r\n"
				    "X-Frame-Options: DENY\r\n"
				    "Referrer-Policy: no-referrer\r\n"
				    "Content-Security-Policy: " CONTENT_POLICY "\r\n"
				    "Cross-Origin-Resource-Policy: same-origin\r\n";

static unsigned http_answer_status(int code)
{
	static const struct {
		int code;
		unsigned status;
	} rows[] = {
		{ TIDE_ESYNTAX, 400 },     { TIDE_EVERB, 400 },
		{ TIDE_ETOOLONG, 400 },    { TIDE_EDENIED, 403 },
		{ TIDE_ENOTFOUND, 404 },   { TIDE_EMISMATCH, 409 },
		{ TIDE_EEXISTS, 409 },     { TIDE_EABORTED, 409 },
		{ TIDE_ELEASE, 410 },      { TIDE_ETOOLARGE, 413 },
		{ TIDE_EUNROUTABLE, 422 }, { TIDE_EREJECTED, 422 },
		{ TIDE_ERULE, 422 },       { TIDE_ELIMIT, 429 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].code == code)
			return rows[i].status;
	return 503; /* busy, store, shutdown, full; and libuv's */
}

void http_answer_header(struct http_request *q, const char *name, const char *value)
{
	buf_printf(&q->answer.headers, "%s: %s\r\n", name, value);
}

/* --http-origin that lets it ask; NULL: none does. */
static const char *find_origin(const struct http_request *q, const char *origin)
{
	const struct http_config *config = &q->conn->engine->config;

	const char *any = NULL;

	for (unsigned i = 0; i < config->origin_count; i++)
		if (strcasecmp(config->origins[i], origin) == 0)
			return config->origins[i];
		else if (strcmp(config->origins[i], "*") == 0)
			any = config->origins[i];
	return any;
}

/* The password that a browser has stored goes along for a page of an origin that is
 * named; for any page it does not: that one must know a password. */
static void http_answer_write_origin(struct http_request *q)
{
	const char *origin = http_request_header(q, "Origin"), *allowed;

	if (q->conn->engine->config.origin_count == 0)
		return;
	buf_append_text(&q->answer.headers, "Vary: Origin\r\n");
	allowed = origin ? find_origin(q, origin) : NULL;
	if (!allowed)
		return;
	if (strcmp(allowed, "*") == 0)
		buf_append_text(&q->answer.headers, "Access-Control-Allow-Origin: *\r\n");
	else
		buf_printf(&q->answer.headers,
			   "Access-Control-Allow-Origin: %s\r\n"
			   "Access-Control-Allow-Credentials: true\r\n",
			   origin);
}

void http_answer_begin(struct http_request *q, unsigned status)
{
	q->answer.status = status;
	buf_append_text(&q->answer.headers, fixed_headers);
	http_answer_write_origin(q);
}

void http_answer_take(struct http_request *q, unsigned status, struct buf *json)
{
	http_answer_begin(q, status);
	q->answer.document = *json;
	q->answer.left = buf_slice(json);
	q->conn->base.kept = q->answer.left.len;
	session_answer_stand(q->conn->base.session, q->answer.left.len);
	*json = (struct buf){ 0 };
	http_answer_header(q, "Content-Type", "application/json");
	http_answer_header(q, "Cache-Control", "no-store");
}

void http_answer_content(struct http_request *q, const struct http_content *content)
{
	const char *known = http_request_header(q, "If-None-Match");
	bool is_known = known && strstr(known, content->etag);

	http_answer_begin(q, is_known ? 304 : 200);
	if (!is_known)
		q->answer.left = content->bytes;
	http_answer_header(q, "Content-Type", content->type);
	http_answer_header(q, "Cache-Control", "no-cache");
	http_answer_header(q, "ETag", content->etag);
}

static void write_error(struct buf *out, const char *code, const char *text)
{
	struct json j = { .out = out };

	json_object_begin(&j);
	json_member_object(&j, "error");
	json_member_text(&j, "code", code);
	json_member_text(&j, "text", text);
	json_object_end(&j);
	json_object_end(&j);
	buf_append_char(out, '\n');
}

void http_answer_refuse(struct http_request *q, unsigned status, const char *code,
			const char *text)
{
	struct buf json = { 0 };

	write_error(&json, code, text);
	http_answer_take(q, status, &json);
}

static void answer_error(struct http_request *q, const struct error *err)
{
	http_answer_refuse(q, http_answer_status(err->code), error_wire_code(err->code),
			   err->text);
}

/* ---- as bytes ---- */

/* "200 OK" */
static struct slice status_line(unsigned status)
{
	static const char lines[] =
		"101 Switching Protocols|200 OK|204 No Content|304 Not Modified|400 Bad "
		"Request|"
		"401 Unauthorized|403 Forbidden|404 Not Found|405 Method Not Allowed|"
		"409 Conflict|410 Gone|413 Content Too Large|414 URI Too Long|"
		"415 Unsupported Media Type|422 Unprocessable Content|"
		"426 Upgrade Required|429 Too Many Requests|"
		"431 Request Header Fields Too Large|505 HTTP Version Not Supported";
	struct slice rest = slice_from(lines), line;

	while (rest.len > 0) {
		line = slice_cut(&rest, '|');
		if (strtoul(line.data, NULL, 10) == status)
			return line;
	}
	return SLICE("503 Service Unavailable");
}

/* Where its bytes end, and whether another answer follows. */
static void write_framing(const struct http_request *q, struct buf *out)
{
	if (q->answer.is_in_pieces && !q->head.is_old)
		buf_append_text(out, "Transfer-Encoding: chunked\r\n");
	else if (!q->answer.is_in_pieces && q->answer.status != 304 &&
		 q->answer.status != 204 && q->answer.status != 101)
		buf_printf(out, "Content-Length: %zu\r\n", q->answer.left.len);
	if (q->answer.status == 101)
		buf_append_text(out, "Connection: Upgrade\r\n");
	else if (q->conn->is_leaving)
		buf_append_text(out, "Connection: close\r\n");
	else if (q->head.is_old)
		buf_append_text(out, "Connection: keep-alive\r\n");
	buf_append_text(out, "\r\n");
}

static void write_head(struct http_request *q)
{
	struct buf text = { 0 };

	buf_printf(&text, "HTTP/1.1 %" SLICE_FMT "\r\nDate: %s\r\n",
		   SLICE_ARG(status_line(q->answer.status)),
		   http_engine_date(q->conn->engine));
	buf_append_slice(&text, buf_slice(&q->answer.headers));
	write_framing(q, &text);
	out_append_slice(q->conn->base.out, buf_slice(&text));
	buf_deinit(&text);
}

void http_answer_whole(struct out *out, unsigned status, const char *code,
		       const char *why)
{
	struct buf body = { 0 }, head = { 0 };

	write_error(&body, code, why);
	buf_printf(&head,
		   "HTTP/1.1 %" SLICE_FMT "\r\nContent-Type: application/json\r\n"
		   "Content-Length: %zu\r\nConnection: close\r\n\r\n",
		   SLICE_ARG(status_line(status)), buf_len(&body));
	out_append_slice(out, buf_slice(&head));
	out_append_slice(out, buf_slice(&body));
	buf_deinit(&head);
	buf_deinit(&body);
}

/* The answers of session functions, as JSON. */

void http_answer_published(struct json *j, const struct reply *r)
{
	json_member_hex(j, "id", r->id);
	json_member_int(j, "queues", (int64_t)r->count);
	json_member_bool(j, "duplicate", r->is_duplicate);
	if (!r->has_offset)
		return;
	json_member_int(j, "topics", r->topics);
	json_member_int(j, "partition", r->partition);
	json_member_int(j, "offset", (int64_t)r->offset);
}

void http_answer_member_error(struct json *j, int code, const char *text)
{
	json_member_object(j, "error");
	json_member_text(j, "code", error_wire_code(code));
	json_member_text(j, "text", text);
	json_object_end(j);
}

static void write_members(const struct reply *r, struct json *j)
{
	if (r->kind == REPLY_OK)
		json_member_bool(j, "ok", true);
	if (r->kind == REPLY_COUNT || r->kind == REPLY_COUNTS)
		json_member_int(j, "count", (int64_t)r->count);
	if (r->kind == REPLY_COUNTS)
		json_member_int(j, "left", (int64_t)r->id);
	if (r->kind == REPLY_TEXT)
		json_member_text(j, "text", r->text);
	if (r->kind == REPLY_PUBLISHED)
		http_answer_published(j, r);
	if (r->kind != REPLY_MESSAGES)
		return;
	json_member_array(j, "messages");
	for (uint64_t i = 0; i < r->count; i++)
		http_message_write(&r->deliveries[i], NULL, j);
	json_array_end(j);
}

/* The document of a list: what was asked for of it, and how long all of it is. */
static void write_page(const struct reply *r, struct buf *out)
{
	buf_printf(out, "{\"total\":%llu,\"items\":", (unsigned long long)r->count);
	buf_append_slice(out, buf_slice(&r->data));
	buf_append_char(out, '}');
}

static void answer_reply(struct http_request *q, struct reply *r)
{
	unsigned features = q->match.route->features;
	struct buf text = { 0 };
	struct json j = { .out = &text };

	if (r->kind == REPLY_ERROR) {
		http_answer_refuse(q, http_answer_status(r->error),
				   error_wire_code(r->error), r->text);
		return;
	}
	if (r->kind == REPLY_DATA && !(features & HTTP_PAGED)) {
		text = r->data;
		r->data = (struct buf){ 0 };
	} else if (r->kind == REPLY_DATA) {
		write_page(r, &text);
	} else {
		json_object_begin(&j);
		write_members(r, &j);
		json_object_end(&j);
	}
	buf_append_char(&text, '\n');
	http_answer_take(q, 200, &text);
}

/* An answer in pieces, for what is long or never ends.
 *
 * The peer takes pieces as fast as it can. A handler that answers so leaves its reply
 * alone. */

#define PIECE_BYTES 16384

/* No piece follows, and `end` is called. Harmless when that has been. */
static void end_stream(struct http_request *q)
{
	void (*end)(void *ctx) = q->answer.source.end;

	q->answer.source.next = NULL;
	q->answer.source.end = NULL;
	if (end)
		end(q->answer.source.ctx);
}

static void write_chunk(struct out *out, struct slice bytes)
{
	char size[24];

	out_append(out, size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", bytes.len));
	out_append_slice(out, bytes);
	out_append(out, "\r\n", 2);
}

static void write_piece(struct http_request *q, struct slice piece)
{
	struct out *out = q->conn->base.out;

	if (q->head.is_old) {
		out_append_slice(out, piece);
		return;
	}
	while (piece.len > 0) {
		size_t len = piece.len < PIECE_BYTES ? piece.len : PIECE_BYTES;

		write_chunk(out, (struct slice){ piece.data, len });
		piece = slice_skip(piece, len);
	}
}

/* An answer that breaks off has no end that a reader could take for one. */
static void break_off(struct http_request *q)
{
	q->conn->is_leaving = true;
	end_stream(q);
}

/* Write the next piece, if there is one. False: that was the last. */
static bool write_stream(struct http_request *q)
{
	struct buf piece = { 0 };
	int rc = TIDE_EMPTY;

	if (q->answer.source.next)
		rc = q->answer.source.next(q->answer.source.ctx, &piece, PIECE_BYTES);
	if (buf_len(&piece) > 0)
		write_piece(q, buf_slice(&piece));
	q->answer.is_source_idle = rc == TIDE_AGAIN && buf_len(&piece) == 0;
	buf_deinit(&piece);
	if (rc == TIDE_OK || rc == TIDE_AGAIN)
		return true;
	if (rc != TIDE_EMPTY)
		break_off(q);
	else if (!q->head.is_old)
		out_append(q->conn->base.out, "0\r\n\r\n", 5);
	return false;
}

void http_stream_start(struct http_request *q, const struct http_stream *source)
{
	http_answer_begin(q, 200);
	q->answer.source = *source;
	q->answer.is_in_pieces = true;
	/* Without chunks its end is that of the connection. */
	q->conn->is_leaving |= q->head.is_old;
	http_answer_header(q, "Content-Type", source->content_type);
	http_answer_header(q, "Cache-Control", "no-store");
}

void http_stream_wake(struct http_request *q)
{
	q->answer.is_source_idle = false;
	http_engine_queue(q);
}

/* Requests that a page of another site must not make a browser send.
 *
 * A browser shows any page, and lets it send requests to any host. See docs/http.md. */

/* "https://HOST:PORT" is a page of the host. */
static bool is_own(const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");

	return at && host && strcasecmp(at + 3, host) == 0;
}

bool http_is_origin(const char *text)
{
	const char *at = strstr(text, "://");

	return strcmp(text, "*") == 0 ||
	       (at && at > text && at[3] && !strpbrk(at + 3, "/?#@ \t\"'*,"));
}

/* Without the port, and without the brackets of an IPv6 address. */
static void cut_name(const char *host, char *name, size_t size)
{
	const char *end = host[0] == '[' ? strchr(host, ']') : NULL;

	if (end && (!end[1] || end[1] == ':'))
		snprintf(name, size, "%.*s", (int)(end - host - 1), host + 1);
	else
		snprintf(name, size, "%.*s", (int)strcspn(host, ":"), host);
}

static bool is_address(const char *name)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, name, bytes) == 1 ||
	       inet_pton(AF_INET6, name, bytes) == 1;
}

static bool is_known(const char *name, const struct http_config *config)
{
	if (strcasecmp(name, "localhost") == 0 || is_address(name))
		return true;
	for (unsigned i = 0; i < config->host_count; i++)
		if (strcasecmp(name, config->hosts[i]) == 0)
			return true;
	return false;
}

/* Requests that a page of another site must not make a browser send (docs/http.md):
 * TIDE_EDENIED when the request is not our own page's, or is made under a name that is
 * not ours, while nobody must log in. */
static int check_origin(const struct http_request *q, struct error *err)
{
	const char *host = q->head.host, *origin = http_request_header(q, "Origin");
	char name[256];

	/* Probes know the broker by all sorts of names. */
	if (q->match.route && q->match.route->features & HTTP_ANY_HOST)
		return TIDE_OK;
	if (origin && !is_own(origin, host) && !find_origin(q, origin))
		return error_set(err, TIDE_EDENIED,
				 "a page of %.200s may not ask this broker: only its own "
				 "pages may, and those of serve --http-origin",
				 origin);
	/* A name may be made to lead here by whoever owns it: then his page is our own,
	 * for a browser. With a login he would need a password. */
	if (!host || !service_users_is_open(q->conn->spec.service))
		return TIDE_OK;
	cut_name(host, name, sizeof(name));
	if (is_known(name, &q->conn->engine->config))
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "this broker is not known as '%.200s': start it with "
			 "--http-host %.200s, or define users",
			 name, name);
}

/* A browser asks whether a page of another origin may send a request. */
static bool is_preflight(const struct http_request *q)
{
	const char *origin = http_request_header(q, "Origin");

	return origin && strcmp(q->head.method, "OPTIONS") == 0 &&
	       http_request_header(q, "Access-Control-Request-Method") &&
	       find_origin(q, origin);
}

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

	if (q->answer.status || q->rc < 0 || buf_len(&q->body) < LARGE_BYTES)
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

/* The sender of a request: a user by HTTP Basic, or a token. The session of a
 * connection stays for as long as its requests say the same. */

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
		answer_error(q, why);
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

/* The login is decided before a byte of the body is kept. */
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
	if (check_origin(q, &err) < 0)
		answer_error(q, &err);
	else if (is_preflight(q))
		answer_preflight(q);
	else if (!q->match.route && !q->match.allow)
		http_answer_refuse(q, 404, "not-found", "there is nothing at this path");
	else if (!q->match.route)
		refuse_method(q);
	else if (http_request_decode(q, &err) < 0)
		answer_error(q, &err);
	else if (q->head.length > body_max(q))
		answer_error(q, refuse_length(q, &err));
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
	/* The body becomes messages, which count themselves. */
	protocol_received(&q->conn->base);
	rc = q->answer.status ? TIDE_OK : check_body(q, &err);
	if (q->answer.status)
		return;
	if (rc < 0) {
		answer_error(q, &err);
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
		answer_error(q, &err);
	/* The handler has left it alone. */
	if (q->reply && q->answer.status)
		reply_ok(q->reply);
}

void http_exchange_reply(struct http_conn *c, struct reply *r)
{
	struct http_request *q = c->request;

	if (!q)
		return;
	if (q->reply == r) {
		q->reply = NULL;
		if (!q->on_reply && !q->answer.status)
			answer_reply(q, r);
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
	write_head(q);
	if (q->answer.status != 101 && strcmp(q->head.method, "HEAD") != 0)
		return;
	q->answer.left.len = q->conn->base.kept = 0;
	q->answer.is_in_pieces = false;
	end_stream(q);
}

static bool has_room(const struct http_request *q)
{
	return q->conn->base.out->bytes < HTTP_OUTPUT_MAX;
}

/* Some more of it; false: that was all. */
static bool write_more(struct http_request *q)
{
	size_t len = q->answer.left.len < HTTP_OUTPUT_MAX ? q->answer.left.len
							  : HTTP_OUTPUT_MAX;

	if (q->answer.is_in_pieces)
		return write_stream(q);
	out_append(q->conn->base.out, q->answer.left.data, len);
	q->answer.left = slice_skip(q->answer.left, len);
	q->conn->base.kept = q->answer.left.len;
	return q->answer.left.len > 0;
}

static void forget_request(struct http_request *q)
{
	struct http_conn *c = q->conn;

	end_stream(q);
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
	bool is_upgrade = q->answer.status == 101;

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

/* Has the request what it waited for? */
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
		return q->answer.status != 0;
	case HTTP_ANSWER:
		return has_room(q) && !q->answer.is_source_idle;
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
		if (q->answer.status && has_body(q)) {
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

/* The rest of the request may never come, and then it gets no answer. */
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

/* False: it is another broker's. */
static bool begin(struct http_conn *c, const char *data, size_t len)
{
	struct http_request *q = mem_zalloc(sizeof(*q));
	const char *why;

	q->conn = c;
	q->text = mem_strndup(data, len);
	c->request = q;
	why = http_head_read(&q->head, q->text);
	if (why) {
		refuse(c, why);
		return true;
	}
	if (c->spec.ops->is_elsewhere &&
	    c->spec.ops->is_elsewhere(c->spec.ctx, q->head.target)) {
		forget_request(q);
		return false;
	}
	http_body_init(&q->coming, &q->head);
	q->query = slice_from(q->head.target);
	q->path = slice_cut(&q->query, '?');
	c->is_leaving |= q->head.is_last || c->spec.is_once;
	http_exchange_go_on(q);
	return true;
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
	return begin(c, data, head_len) ? head_len : 0;
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
	} else if (q->answer.source.is_endless) {
		end_stream(q);
		http_stream_wake(q);
	}
}
