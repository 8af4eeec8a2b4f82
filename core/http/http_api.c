#include "http_request.h"

#include <stdio.h>

#include "base/tally.h"
#include "base/mem.h"
#include "session/service.h"
#include "session/session_metrics.h"

/* Figures that go on by the clock: server-sent events. The first comes at once. A peer
 * that reads slowly gets fewer of them. */

/* Something comes so often at least, for whoever stands between and closes what is
 * silent; and so that we hear of a peer that has gone. */
#define SILENCE_MS 15000

struct stats_feed {
	struct http_request *request;
	uv_timer_t timer;
	int64_t every_ms;
	int64_t left_ms; /* until the next event */
	bool is_due;     /* one is, or a comment */
	struct buf *out; /* where the reply goes */
	struct error err;
};

static void on_sample(void *ctx, struct reply *r)
{
	struct stats_feed *f = ctx;

	if (r->kind == REPLY_DATA)
		buf_append_slice(f->out, buf_slice(&r->data));
	else
		error_set(&f->err, r->error, "%s", r->text);
}

/* The permission is asked for each time: it may have gone. TIDE_AGAIN passes this
 * event over. */
static int write_sample(struct stats_feed *f, struct buf *out)
{
	struct reply *r = reply_create(http_request_channel(f->request), false);

	f->out = out;
	f->err.code = TIDE_OK;
	if (session_report_sample(http_request_session(f->request), r, &f->err) < 0)
		reply_error(r, &f->err);
	return f->err.code;
}

static int write_event(struct stats_feed *f, struct buf *out)
{
	size_t before;
	int rc;

	buf_append_text(out, "event: stats\ndata: ");
	before = buf_len(out);
	session_begin(http_request_session(f->request));
	rc = write_sample(f, out);
	if (rc == TIDE_OK && buf_len(out) > before) {
		buf_append_text(out, "\n\n");
		return TIDE_OK;
	}
	buf_clear(out);
	return rc == TIDE_AGAIN ? TIDE_OK : rc;
}

static int64_t step_ms(const struct stats_feed *f)
{
	return f->left_ms < SILENCE_MS ? f->left_ms : SILENCE_MS;
}

static void on_event_timer(uv_timer_t *timer)
{
	struct stats_feed *f = timer->data;

	f->left_ms -= step_ms(f);
	f->is_due = true;
	http_stream_wake(f->request);
}

static int next_event(void *ctx, struct buf *out, size_t room)
{
	struct stats_feed *f = ctx;
	int rc = TIDE_OK;

	if (!f->is_due)
		return TIDE_AGAIN;
	f->is_due = false;
	if (f->left_ms > 0) {
		buf_append_text(out, ":\n\n");
	} else {
		f->left_ms = f->every_ms;
		rc = write_event(f, out);
	}
	uv_timer_start(&f->timer, on_event_timer, (uint64_t)step_ms(f), 0);
	return rc < 0 ? rc : TIDE_AGAIN;
}

static void on_events_closed(uv_handle_t *handle)
{
	mem_free(handle->data);
}

static void end_events(void *ctx)
{
	struct stats_feed *f = ctx;

	uv_close((uv_handle_t *)&f->timer, on_events_closed);
}

/* One that may not ask is told so, and not by a stream that ends. */
static int try_once(struct stats_feed *f, struct error *err)
{
	struct buf first = { 0 };
	int rc = write_sample(f, &first);

	buf_deinit(&first);
	return rc < 0 ? error_set(err, rc, "%s", f->err.text) : TIDE_OK;
}

static int get_events(struct http_request *q, struct reply *r, struct error *err)
{
	static const struct parameter rows[] = {
		{ .name = "every",
		  .type = PARAMETER_DURATION,
		  .offset = offsetof(struct stats_feed, every_ms),
		  .min = 100,
		  .max = 60000 },
		{ 0 },
	};
	struct stats_feed *f = mem_zalloc(sizeof(*f));
	const struct http_stream source = {
		.content_type = "text/event-stream",
		.next = next_event,
		.end = end_events,
		.ctx = f,
		.is_endless = true,
	};
	int rc;

	f->request = q;
	f->every_ms = 2000;
	f->is_due = true;
	rc = http_request_read(q, rows, f, err);
	if (rc == TIDE_OK) {
		http_request_listen(q, on_sample, f);
		rc = try_once(f, err);
	}
	if (rc < 0) {
		mem_free(f);
		return rc;
	}
	uv_timer_init(q->conn->engine->loop, &f->timer);
	f->timer.data = f;
	http_stream_start(q, &source);
	return TIDE_OK;
}

static int answer_health(struct http_request *q, unsigned status, struct buf *text)
{
	buf_append_char(text, '\n');
	http_answer_take(q, status, text);
	return TIDE_OK;
}

/* Whoever gets an answer_health knows enough. */
static int get_live(struct http_request *q, struct reply *r, struct error *err)
{
	struct buf text = { 0 };
	struct json j = { .out = &text };

	json_object_begin(&j);
	json_member_bool(&j, "live", true);
	json_object_end(&j);
	return answer_health(q, 200, &text);
}

static int get_ready(struct http_request *q, struct reply *r, struct error *err)
{
	const struct service *s = q->conn->spec.service;
	struct buf text = { 0 };
	struct json j = { .out = &text };

	json_object_begin(&j);
	service_health_write(s, false, &j);
	json_object_end(&j);
	return answer_health(q, service_health_is_ready(s) ? 200 : 503, &text);
}

struct scrape {
	struct http_request *request;
	struct session_metrics *metrics;
};

static void on_scraped(void *ctx)
{
	struct scrape *s = ctx;

	http_stream_wake(s->request);
}

static int next_figures(void *ctx, struct buf *out, size_t room)
{
	struct scrape *s = ctx;

	return session_metrics_take(s->metrics, out);
}

static void end_scrape(void *ctx)
{
	struct scrape *s = ctx;

	session_metrics_end(s->metrics);
	mem_free(s);
}

static bool wants_openmetrics(const struct http_request *q)
{
	const char *accept = http_request_header(q, "Accept");

	return exposition_wants_openmetrics(slice_from(accept ? accept : ""));
}

static int get_metrics(struct http_request *q, struct reply *r, struct error *err)
{
	static const struct parameter rows[] = {
		{ .name = "per", .type = PARAMETER_CHOICE, .what = "queue or vhost" },
		{ 0 }
	};
	struct scrape *s = mem_zalloc(sizeof(*s));
	unsigned per;
	struct metrics_spec spec = {
		.is_openmetrics = wants_openmetrics(q),
		.on_piece = on_scraped,
		.ctx = s,
	};
	const struct http_stream source = {
		.content_type = exposition_content_type(spec.is_openmetrics),
		.next = next_figures,
		.end = end_scrape,
		.ctx = s,
	};

	s->request = q;
	if (http_request_read(q, rows, &per, err) < 0) {
		mem_free(s);
		return err->code;
	}
	spec.is_per_vhost = per;
	if (session_metrics_start(&s->metrics, http_request_session(q), &spec, err) < 0) {
		mem_free(s);
		return err->code;
	}
	http_stream_start(q, &source);
	return TIDE_OK;
}

/* tools/embed.sh writes the table and the bytes, for the assembler: offsets from its
 * begin. A name is zero-terminated, like the hexadecimal digits of a sum. */
struct http_file {
	uint32_t name, sum, bytes, len;
};
extern const struct http_file http_embedded[];
extern const uint32_t http_embedded_count;

static const char *embedded_at(uint32_t offset)
{
	return (const char *)http_embedded + offset;
}

static const char *type_of(struct slice name)
{
	static const struct {
		const char *suffix, *type;
	} rows[] = {
		{ ".html", "text/html; charset=utf-8" },
		{ ".css", "text/css; charset=utf-8" },
		{ ".js", "text/javascript; charset=utf-8" },
		{ ".svg", "image/svg+xml" },
		{ ".json", "application/json" },
		{ ".png", "image/png" },
		{ ".woff2", "font/woff2" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (slice_has_suffix(name, rows[i].suffix))
			return rows[i].type;
	return "text/plain; charset=utf-8";
}

static int answer_file(struct http_request *q, struct slice name, struct error *err)
{
	for (uint32_t i = 0; i < http_embedded_count; i++) {
		const struct http_file *f = &http_embedded[i];
		char etag[64];
		const struct http_content content = {
			.bytes = { embedded_at(f->bytes), f->len },
			.type = type_of(name),
			.etag = etag,
		};

		if (!slice_is(name, embedded_at(f->name)))
			continue;
		snprintf(etag, sizeof(etag), "\"%.40s\"", embedded_at(f->sum));
		http_answer_content(q, &content);
		return TIDE_OK;
	}
	return error_set(err, TIDE_ENOTFOUND, "there is no file '%" SLICE_FMT "'",
			 SLICE_ARG(name));
}

static int get_index(struct http_request *q, struct reply *r, struct error *err)
{
	return answer_file(q, SLICE("index.html"), err);
}

static int get_file(struct http_request *q, struct reply *r, struct error *err)
{
	return answer_file(q, http_request_path(q, "file"), err);
}

static int get_description(struct http_request *q, struct reply *r, struct error *err)
{
	return answer_file(q, SLICE("openapi.json"), err);
}

/* The API: each operation of core/ops by one handler, and what is no row of that table.
 */

#define FILES_MAX 1000
#define LIMITS "max-connections, max-channels, publish-rate and publish-bytes"

/* ---- operations ---- */

static int options_of(void *ctx, const struct operation *o, const struct parameter *p,
		      struct args *out, struct error *err)
{
	http_request_args(ctx, p->name, out);
	return http_request_check(ctx, err);
}

int http_api_run(struct http_request *q, struct reply *r, struct error *err)
{
	const struct operation_request request = { .ctx = q,
						   .value = http_request_value,
						   .options = options_of };
	const struct operation_call call = {
		.session = http_request_session(q),
		.channel = http_request_channel(q),
	};

	return operation_run(q->match.route->operation, &request, &call, r, err);
}

/* Each request that there is, for programs: docs/openapi.json is made of it. */
static int list_routes(struct http_request *q, struct reply *r, struct error *err)
{
	struct http_route route;
	const struct operation *o;
	struct json j;

	reply_json(r, &j);
	json_object_begin(&j);
	json_member_array(&j, "routes");
	for (size_t i = 0; http_route_at(i, &route); i++) {
		struct buf list = { 0 };
		struct slice names;

		http_request_write_names(&route, &list);
		names = slice_skip(buf_slice(&list), buf_len(&list) > 0);
		json_object_begin(&j);
		json_member_text(&j, "method", route.method);
		json_member_text(&j, "path", route.path);
		json_member_array(&j, "parameters");
		while (names.len > 0)
			json_slice(&j, slice_cut(&names, ' '));
		json_array_end(&j);
		json_member_bool(&j, "login", !(route.features & HTTP_NO_LOGIN));
		json_object_end(&j);
		buf_deinit(&list);
	}
	json_array_end(&j);
	json_member_array(&j, "operations");
	for (size_t i = 0; (o = operation_at(i)) != NULL; i++) {
		json_object_begin(&j);
		operation_write(o, &j);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

/* ---- rules ---- */

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

/* ---- PUT of a user: it is made what the request says, step by step ---- */

/* A user is added, with all that is given. One that is there gets its tags and limits,
 * and then its password. */
static const enum user_edit put_steps[] = { USER_EDIT_ADD, USER_EDIT_SET,
					    USER_EDIT_PASSWORD };
#define PUT_STEPS (sizeof(put_steps) / sizeof(put_steps[0]))

struct http_user_put {
	struct http_request *q;
	struct reply *answer;
	unsigned step;         /* in put_steps */
	struct user_spec spec; /* in the texts of the request */
};

static void on_step(void *ctx, struct reply *r);

/* Take the next step that has something to say. */
static void take_step(struct http_user_put *p)
{
	struct user_spec spec = p->spec;
	bool has_more = spec.tags.data;
	struct reply *r;
	struct error err;

	for (unsigned i = 0; i < USER_SPEC_LIMITS; i++)
		has_more |= spec.limits[i] != USER_LIMIT_AS_IT_IS;
	p->step += p->step == 1 && !has_more;
	p->step += p->step == 2 && !spec.password.data;
	if (p->step == PUT_STEPS) {
		reply_ok(p->answer);
		mem_free(p);
		return;
	}
	spec.edit = put_steps[p->step];
	if (spec.edit == USER_EDIT_SET)
		spec.password.data = NULL;
	if (spec.edit == USER_EDIT_PASSWORD)
		spec.tags.data = NULL;
	r = reply_create_aside(http_request_channel(p->q), on_step, p);
	if (session_user_edit(http_request_session(p->q), &spec, r, &err) < 0)
		reply_error(r, &err);
}

static void on_step(void *ctx, struct reply *r)
{
	struct http_user_put *p = ctx;
	bool is_there =
		p->step == 0 && r->kind == REPLY_ERROR && r->error == TIDE_EEXISTS;
	struct error err;

	if (r->kind == REPLY_ERROR && !is_there) {
		error_set(&err, r->error, "%s", r->text);
		reply_error(p->answer, &err);
		mem_free(p);
		return;
	}
	p->step = p->step == 0 && !is_there ? PUT_STEPS : p->step + 1;
	take_step(p);
}

static int read_limits(const struct http_request *q, struct user_spec *spec,
		       struct error *err)
{
	static const char *const names[USER_SPEC_LIMITS] = {
		"max-connections", "max-channels", "publish-rate", "publish-bytes"
	};
	json_t *limits = json_object_get(http_request_json(q), "limits"), *value;
	const char *name;

	for (unsigned i = 0; i < USER_SPEC_LIMITS; i++)
		spec->limits[i] = USER_LIMIT_AS_IT_IS;
	json_object_foreach(limits, name, value)
	{
		json_int_t n = json_integer_value(value);
		unsigned i = 0;

		while (i < USER_SPEC_LIMITS && strcmp(names[i], name) != 0)
			i++;
		if (i == USER_SPEC_LIMITS)
			return error_set(err, TIDE_ESYNTAX, "a user has no limit '%s'",
					 name);
		if (!json_is_integer(value) || n < 0 || n > (INT64_C(1) << 53))
			return error_set(err, TIDE_ESYNTAX,
					 "limits: expected numbers, 0 for none, for "
					 "some of: " LIMITS);
		spec->limits[i] = (uint64_t)n;
	}
	if (limits && !json_is_object(limits))
		return error_set(err, TIDE_ESYNTAX,
				 "limits: expected an object with some of: " LIMITS);
	return TIDE_OK;
}

/* "admin,monitor", or an array of them. */
static struct slice read_tags(struct http_request *q)
{
	const json_t *list = json_object_get(http_request_json(q), "tags");
	size_t i, len = 0, room_len = 0;
	const json_t *item;
	char *room;

	if (!json_is_array(list))
		return http_request_text(q, "tags");
	json_array_foreach(list, i, item) room_len += json_string_length(item) + 1;
	room = http_request_room(q, room_len);
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item)) {
			http_request_refuse(q, "tags", SLICE("[…]"),
					    "an array of strings");
			break;
		}
		if (i > 0)
			room[len++] = ',';
		memcpy(room + len, json_string_value(item), json_string_length(item));
		len += json_string_length(item);
	}
	return (struct slice){ room, len };
}

static int put_user(struct http_request *q, struct reply *r, struct error *err)
{
	struct http_user_put *p;
	struct user_spec spec = {
		.name = http_request_path(q, "user"),
		.password = http_request_text(q, "password"),
		.tags = read_tags(q),
	};

	if (http_request_check(q, err) < 0 || read_limits(q, &spec, err) < 0 ||
	    session_access_check_admin(http_request_session(q), "USER", err) < 0)
		return err->code;
	p = mem_zalloc(sizeof(*p));
	p->q = q;
	p->answer = r;
	p->spec = spec;
	take_step(p);
	return TIDE_OK;
}

const struct http_route http_api_routes[] = {
	{ "GET", "/api/events", "every", 0, get_events, NULL },
	{ "GET", "/health/live", NULL, HTTP_NO_LOGIN | HTTP_ANY_HOST, get_live, NULL },
	{ "GET", "/health/ready", NULL, HTTP_NO_LOGIN | HTTP_ANY_HOST, get_ready, NULL },
	{ "GET", "/metrics", "per", 0, get_metrics, NULL },
	{ "GET", "/", NULL, HTTP_NO_LOGIN, get_index, NULL },
	{ "GET", "/page/{file}", NULL, HTTP_NO_LOGIN, get_file, NULL },
	{ "GET", "/api/openapi.json", NULL, HTTP_NO_LOGIN, get_description, NULL },
	{ "GET", "/api", NULL, 0, list_routes, NULL },
	{ "PUT", "/api/rules/candidate", "files", 0, upload, NULL },
	{ "PUT", "/api/users/{user}", "password tags limits", 0, put_user, NULL },
	{ 0 },
};
