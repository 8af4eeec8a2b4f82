#include "http_request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "base/percent.h"
#include "session/service_net.h"

/* The handlers of methods and paths. */

static const struct http_route *const tables[] = {
	http_websocket_routes,
	http_message_routes,
	http_api_routes,
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

/* Part by part: a part in braces takes any. */
static bool is_match(const char *pattern, struct slice path, struct http_match *out)
{
	struct slice rest = slice_from(pattern);

	out->count = 0;
	while (rest.len > 0 && path.len > 0) {
		struct slice want = slice_cut(&rest, '/'), part = slice_cut(&path, '/');

		if (slice_has_prefix(want, "{") && part.len > 0)
			out->values[out->count++] = part;
		else if (!slice_is_equal(want, part))
			return false;
	}
	return rest.len == 0 && path.len == 0;
}

static bool is_method(const struct http_route *r, const char *method)
{
	return strcmp(r->method, method) == 0 ||
	       (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

static void allow(struct http_match *out, char text[HTTP_ALLOW_MAX], const char *method)
{
	size_t len = out->allow ? strlen(text) : 0;

	snprintf(text + len, HTTP_ALLOW_MAX - len, "%s%s", len ? ", " : "", method);
	out->allow = text;
}

void http_route_find(struct http_match *out, const char *method, struct slice path,
		     char text[HTTP_ALLOW_MAX])
{
	*out = (struct http_match){ 0 };
	for (size_t i = 0; http_route_at(i, &out->found); i++) {
		if (!is_match(out->found.path, path, out))
			continue;
		if (is_method(&out->found, method)) {
			out->route = &out->found;
			return;
		}
		allow(out, text, out->found.method);
	}
}

bool http_route_at(size_t index, struct http_route *out)
{
	const struct operation *o;

	for (size_t i = 0; i < TABLES; i++)
		for (const struct http_route *r = tables[i]; r->method; r++)
			if (index-- == 0) {
				*out = *r;
				return true;
			}
	for (size_t i = 0; (o = operation_at(i)) != NULL; i++)
		if (o->path && index-- == 0) {
			unsigned features =
				(o->features & OPERATION_PAGED ? HTTP_PAGED : 0u) |
				(o->features & OPERATION_DECLARES ? HTTP_DECLARES : 0u) |
				(o->features & OPERATION_VHOST ? HTTP_VHOST : 0u);

			*out = (struct http_route){ o->method, o->path, NULL,
						    features,  NULL,    o };
			return true;
		}
	return false;
}

static const struct slice none = { NULL, 0 };

struct session *http_request_session(struct http_request *q)
{
	return q->conn->base.session;
}

struct channel *http_request_channel(struct http_request *q)
{
	return session_channel(q->conn->base.session, 0);
}

/* The memory lasts as long as the request. */
char *http_request_room(struct http_request *q, size_t len)
{
	struct http_text *t = mem_alloc(sizeof(*t) + len + 1);

	t->next = q->texts;
	q->texts = t;
	return t->bytes;
}

static struct slice keep(struct http_request *q, const char *data, size_t len)
{
	char *room = http_request_room(q, len);

	if (len > 0)
		memcpy(room, data, len);
	room[len] = '\0';
	return (struct slice){ room, len };
}

/* ---- the parts of a request ---- */

static int decode(struct http_request *q, struct slice text, struct slice *out,
		  struct error *err)
{
	char *room = http_request_room(q, text.len);
	size_t len;

	if (percent_decode(text, room, &len) < 0)
		return error_set(err, TIDE_ESYNTAX,
				 "%.*s: two hexadecimal digits follow a '%%'",
				 SLICE_HEAD(text, 64));
	room[len] = '\0';
	*out = (struct slice){ room, len };
	return TIDE_OK;
}

void http_request_write_names(const struct http_route *r, struct buf *out)
{
	if (r->operation)
		operation_write_names(r->operation, OPERATION_HTTP, out);
	else if (r->names)
		buf_printf(out, " %s", r->names);
}

static int check_known(const struct http_request *q, struct slice name, struct error *err)
{
	const struct http_route *r = q->match.route;
	struct buf names = { 0 };

	if (r->operation ? operation_takes(r->operation, name, OPERATION_HTTP)
			 : slice_is_listed(name, r->names))
		return TIDE_OK;
	http_request_write_names(r, &names);
	error_set(err, TIDE_ESYNTAX, "%s %s has no parameter '%.*s'%s%s", r->method,
		  r->path, SLICE_HEAD(name, 64), buf_len(&names) ? "; it takes:" : "",
		  buf_cstr(&names));
	buf_deinit(&names);
	return err->code;
}

static int decode_path(struct http_request *q, struct error *err)
{
	for (unsigned i = 0; i < q->match.count; i++) {
		int rc = decode(q, q->match.values[i], &q->path_values[i], err);

		if (rc < 0)
			return rc;
		if (!slice_is_name(q->path_values[i]))
			return error_set(err, TIDE_ESYNTAX,
					 "a name in the path must be 1-%d bytes of UTF-8 "
					 "without white space and control characters",
					 NAME_LEN_MAX);
	}
	return TIDE_OK;
}

/* A form's way to write a space. */
static void replace_plus(struct http_request *q, struct slice *text)
{
	char *room;

	if (slice_find(*text, '+') == text->len)
		return;
	*text = keep(q, text->data, text->len);
	room = (char *)text->data;
	for (size_t i = 0; i < text->len; i++)
		if (room[i] == '+')
			room[i] = ' ';
}

/* Whom the request is for, which is decided. */
static int check_cell(const struct http_request *q, struct slice value, struct error *err)
{
	unsigned cells = service_net_cells(q->conn->spec.service);
	uint64_t cell;

	if (slice_to_uint(value, cells - 1, &cell))
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "there is no cell '%.*s': they are numbered from 0 to %u",
			 SLICE_HEAD(value, 64), cells - 1);
}

static int decode_pair(struct http_request *q, struct slice pair, struct error *err)
{
	struct slice name = slice_cut(&pair, '=');
	unsigned n = q->pair_count;
	int rc;

	if (n == HTTP_QUERY_MAX)
		return error_set(err, TIDE_ETOOLONG, "a query has at most %d parameters",
				 HTTP_QUERY_MAX);
	replace_plus(q, &pair);
	rc = decode(q, name, &q->pairs[n].name, err);
	if (rc == TIDE_OK)
		rc = decode(q, pair, &q->pairs[n].value, err);
	if (rc == TIDE_OK && slice_is(q->pairs[n].name, "cell") &&
	    check_known(q, q->pairs[n].name, err) < 0)
		return check_cell(q, q->pairs[n].value, err);
	if (rc == TIDE_OK)
		rc = check_known(q, q->pairs[n].name, err);
	q->pair_count += rc == TIDE_OK;
	return rc;
}

int http_request_decode(struct http_request *q, struct error *err)
{
	struct slice rest = q->query;
	int rc = decode_path(q, err);

	while (rc == TIDE_OK && rest.len > 0) {
		struct slice pair = slice_cut(&rest, '&');

		if (pair.len > 0)
			rc = decode_pair(q, pair, err);
	}
	return rc;
}

/* A value takes some 100 bytes of memory, and two in the body. */
static bool has_too_many(struct slice body)
{
	bool is_text = false;
	size_t count = 0;

	for (size_t i = 0; body.len > HTTP_VALUES_MAX && i < body.len; i++) {
		char c = body.data[i];

		if (is_text && c == '\\')
			i++;
		else if (c == '"')
			is_text = !is_text;
		else if (!is_text)
			count += c == ',' || c == '[' || c == '{';
	}
	return count > HTTP_VALUES_MAX;
}

int http_request_parse(struct slice body, json_t **out, struct error *err)
{
	json_error_t why;

	if (has_too_many(body))
		return error_set(err, TIDE_ETOOLARGE,
				 "the body has more than %d arrays, objects and commas",
				 HTTP_VALUES_MAX);
	*out = json_loadb(body.data, body.len, JSON_REJECT_DUPLICATES, &why);
	if (*out)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "the body is not JSON: line %d, column %d: %s", why.line,
			 why.column, why.text);
}

int http_request_read_body(struct http_request *q, struct error *err)
{
	const char *name;
	json_t *value;

	if (buf_len(&q->body) == 0)
		return TIDE_OK;
	if (!q->is_parsed && http_request_parse(buf_slice(&q->body), &q->json, err) < 0)
		return err->code;
	if (!json_is_object(q->json))
		return error_set(err, TIDE_ESYNTAX, "the body must be a JSON object");
	json_object_foreach(q->json, name, value)
	{
		int rc = check_known(q, slice_from(name), err);

		if (rc < 0)
			return rc;
	}
	return TIDE_OK;
}

void http_request_deinit(struct http_request *q)
{
	struct http_text *t;

	while ((t = q->texts) != NULL) {
		q->texts = t->next;
		mem_free(t);
	}
	buf_deinit(&q->body);
	buf_deinit(&q->answer.headers);
	buf_deinit(&q->answer.document);
	json_decref(q->json);
	mem_free(q->text);
}

void http_request_listen(struct http_request *q,
			 void (*on_reply)(void *ctx, struct reply *r), void *ctx)
{
	q->on_reply = on_reply;
	q->on_reply_ctx = ctx;
	/* Others would wait behind it. */
	if (q->reply)
		reply_ok(q->reply);
}

/* ---- what handlers ask ---- */

const char *http_request_header(const struct http_request *q, const char *name)
{
	return http_head_field(&q->head, name);
}

struct slice http_request_body(const struct http_request *q)
{
	return buf_slice(&q->body);
}

const void *http_request_json(const struct http_request *q)
{
	return q->json;
}

struct slice http_request_path(const struct http_request *q, const char *name)
{
	const char *at = q->match.route->path;
	unsigned i = 0;

	while ((at = strchr(at, '{')) != NULL && i < q->match.count) {
		size_t len = strcspn(++at, "}");

		if (slice_is((struct slice){ at, len }, name))
			return q->path_values[i];
		i++;
	}
	return none;
}

void http_request_refuse(struct http_request *q, const char *name, struct slice value,
			 const char *expected, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list ap;

	if (q->rc < 0)
		return;
	va_start(ap, expected);
	vsnprintf(text, sizeof(text), expected, ap);
	va_end(ap);
	q->rc = error_set(&q->err, TIDE_ESYNTAX, "%s: expected %s, not '%.*s'", name,
			  text, SLICE_HEAD(value, 64));
}

int http_request_check(const struct http_request *q, struct error *err)
{
	return q->rc < 0 ? error_set(err, q->rc, "%s", q->err.text) : TIDE_OK;
}

static struct slice keep_json(struct http_request *q, const json_t *value)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	struct slice kept = keep(q, text, strlen(text));

	free(text);
	return kept;
}

static struct slice from_json(struct http_request *q, const char *name,
			      const json_t *value)
{
	if (json_is_string(value))
		return (struct slice){ json_string_value(value),
				       json_string_length(value) };
	if (json_is_boolean(value))
		return json_is_true(value) ? SLICE("1") : SLICE("0");
	if (json_is_number(value))
		return keep_json(q, value);
	http_request_refuse(q, name, keep_json(q, value),
			    "a string, a number or a "
			    "boolean");
	return none;
}

struct slice http_request_text(struct http_request *q, const char *name)
{
	const json_t *value = json_object_get(q->json, name);

	if (value && !json_is_null(value))
		return from_json(q, name, value);
	for (unsigned i = 0; i < q->pair_count; i++)
		if (slice_is(q->pairs[i].name, name))
			return q->pairs[i].value;
	return none;
}

struct slice http_request_name(struct http_request *q, const char *name)
{
	struct slice value = http_request_text(q, name);

	if (value.data && !slice_is_name(value))
		http_request_refuse(q, name, value,
				    "1-%d bytes of UTF-8 without white space and control "
				    "characters",
				    NAME_LEN_MAX);
	return value;
}

/* "integer", of the JSON value of the member "value". */
static struct slice type_of_value(const struct http_request *q)
{
	const json_t *value = json_object_get(q->json, "value");

	return !value                   ? (struct slice){ NULL, 0 }
	       : json_is_integer(value) ? SLICE("integer")
	       : json_is_real(value)    ? SLICE("number")
	       : json_is_boolean(value) ? SLICE("boolean")
					: SLICE("string");
}

struct slice http_request_value(void *ctx, const struct parameter *p, struct error *err)
{
	struct http_request *q = ctx;
	struct slice value = http_request_path(q, p->name);

	if (!value.data)
		value = http_request_text(q, p->name);
	if (!value.data && p->features & PARAMETER_JSON)
		value = type_of_value(q);
	if (p->type == PARAMETER_TEXT &&
	    json_is_boolean(json_object_get(q->json, p->name)))
		value = slice_is(value, "1") ? SLICE("true") : SLICE("false");
	return http_request_check(q, err) < 0 ? (struct slice){ NULL, 0 } : value;
}

int http_request_read(struct http_request *q, const struct parameter *rows, void *into,
		      struct error *err)
{
	const struct operation_request request = { .ctx = q,
						   .value = http_request_value };

	return operation_read(rows, &request, into, err);
}

static void add_arg(struct http_request *q, const char *name, const json_t *value,
		    struct args *out)
{
	struct slice text;

	if (json_is_null(value))
		return;
	text = from_json(q, name, value);
	if (q->rc == TIDE_OK && args_add(out, slice_from(name), text) < 0)
		http_request_refuse(q, name, text,
				    "an option: at most %d, names without '=', values "
				    "without zero bytes",
				    ARGS_MAX);
}

void http_request_args(struct http_request *q, const char *member, struct args *out)
{
	const json_t *object = json_object_get(q->json, member);
	const char *name;
	json_t *value;

	*out = (struct args){ 0 };
	if (!object || json_is_null(object))
		return;
	if (!json_is_object(object)) {
		http_request_refuse(q, member, keep_json(q, object), "an object");
		return;
	}
	json_object_foreach((json_t *)object, name, value) add_arg(q, name, value, out);
}

/* The parts of a request; for the files of this floor that
 * make one, run it and answer it. */

/* The HTTP protocol of one connection. */

/* The state that all connections of the HTTP port share: the settings, the leases of
 * messages, and the time that requests have in a turn of the loop. */

/* Of requests in a turn of the loop. */
#define TURN_NS UINT64_C(5000000)

bool http_engine_is_late(struct http_engine *e)
{
	uint64_t now_ns = uv_hrtime();

	/* The clock of the loop stands still within a turn. */
	if (e->turn_ms != uv_now(e->loop)) {
		e->turn_ms = uv_now(e->loop);
		e->turn_ns = now_ns;
	}
	return now_ns - e->turn_ns >= TURN_NS;
}

/* Requests that queue up meanwhile wait for the turn after this one. */
static void on_idle(uv_idle_t *idle)
{
	struct http_engine *e = idle->data;
	struct http_request *q, *last = TAILQ_LAST(&e->queue, http_queue);
	bool is_last = false;

	while (!is_last && (q = TAILQ_FIRST(&e->queue)) && !http_engine_is_late(e)) {
		is_last = q == last;
		http_engine_forget(q);
		http_exchange_go_on(q);
	}
	if (TAILQ_EMPTY(&e->queue))
		uv_idle_stop(idle);
}

void http_engine_queue(struct http_request *q)
{
	struct http_engine *e = q->conn->engine;

	if (q->is_queued)
		return;
	q->is_queued = true;
	TAILQ_INSERT_TAIL(&e->queue, q, queue_link);
	uv_idle_start(&e->idle, on_idle);
}

void http_engine_forget(struct http_request *q)
{
	if (q->is_queued)
		TAILQ_REMOVE(&q->conn->engine->queue, q, queue_link);
	q->is_queued = false;
}

const char *http_engine_date(struct http_engine *e)
{
	uv_timeval64_t now;
	struct tm tm;
	time_t s;

	uv_gettimeofday(&now);
	if (now.tv_sec == e->date_s)
		return e->date;
	e->date_s = s = now.tv_sec;
	/* The names are English: no locale is set. */
	strftime(e->date, sizeof(e->date), "%a, %d %b %Y %H:%M:%S GMT",
		 gmtime_r(&s, &tm));
	return e->date;
}

struct http_engine *http_create(uv_loop_t *loop, const struct http_config *config)
{
	struct http_engine *e = mem_zalloc(sizeof(*e));

	json_object_seed(0); /* before there are threads that make objects */
	e->loop = loop;
	e->config = *config;
	TAILQ_INIT(&e->queue);
	uv_idle_init(loop, &e->idle);
	e->idle.data = e;
	e->leases = http_lease_open(loop);
	e->handles = 2;
	return e;
}

static void on_part_closed(void *ctx)
{
	struct http_engine *e = ctx;

	if (--e->handles > 0)
		return;
	e->on_closed(e->ctx);
	mem_free(e);
}

static void on_idle_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

void http_engine_close(struct http_engine *e, void (*on_closed)(void *ctx), void *ctx)
{
	e->on_closed = on_closed;
	e->ctx = ctx;
	uv_close((uv_handle_t *)&e->idle, on_idle_closed);
	http_lease_close(e->leases, on_part_closed, e);
}
