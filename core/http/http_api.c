/* The API: each operation of core/ops by one handler, and what is no row of that table.
 */
#include <jansson.h>

#include "base/mem.h"
#include "http_request_private.h"

#define FILES_MAX 1000
#define LIMITS "max-connections, max-channels, publish-rate and publish-bytes"

/* ---- operations ---- */

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

static struct slice value_of(void *ctx, const struct parameter *p, struct error *err)
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

static int options_of(void *ctx, const struct operation *o, const struct parameter *p,
		      struct args *out, struct error *err)
{
	http_request_args(ctx, p->name, out);
	return http_request_check(ctx, err);
}

int http_api_run(struct http_request *q, struct reply *r, struct error *err)
{
	const struct operation_request request = { .ctx = q,
						   .value = value_of,
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
enum step { STEP_ADD, STEP_SET, STEP_PASSWORD, STEP_DONE };

struct http_user_put {
	struct http_request *q;
	struct reply *answer;
	enum step step;
	struct user_spec spec; /* in the texts of the request */
};

static void go_on(struct http_user_put *p);

/* @param r  that of the step, which may have found that the user is there */
static enum step step_after(const struct http_user_put *p, const struct reply *r)
{
	bool is_added = p->step == STEP_ADD && r->kind != REPLY_ERROR;
	bool has_more = p->spec.tags.data;

	for (unsigned i = 0; i < USER_SPEC_LIMITS; i++)
		has_more |= p->spec.limits[i] != USER_LIMIT_AS_IT_IS;

	if (is_added || p->step == STEP_PASSWORD)
		return STEP_DONE;
	if (p->step == STEP_ADD && has_more)
		return STEP_SET;
	return p->spec.password.data ? STEP_PASSWORD : STEP_DONE;
}

static void on_step(void *ctx, struct reply *r)
{
	struct http_user_put *p = ctx;
	bool is_there =
		p->step == STEP_ADD && r->kind == REPLY_ERROR && r->error == TIDE_EEXISTS;
	struct error err;

	if (r->kind == REPLY_ERROR && !is_there) {
		error_set(&err, r->error, "%s", r->text);
		reply_error(p->answer, &err);
		mem_free(p);
		return;
	}
	p->step = step_after(p, r);
	go_on(p);
}

static void go_on(struct http_user_put *p)
{
	static const enum user_edit edits[] = { [STEP_ADD] = USER_EDIT_ADD,
						[STEP_PASSWORD] = USER_EDIT_PASSWORD,
						[STEP_SET] = USER_EDIT_SET };
	struct user_spec spec = p->spec;
	struct reply *r;
	struct error err;

	if (p->step == STEP_DONE) {
		reply_ok(p->answer);
		mem_free(p);
		return;
	}
	spec.edit = edits[p->step];
	if (p->step == STEP_SET)
		spec.password.data = NULL;
	if (p->step == STEP_PASSWORD) {
		spec.tags.data = NULL;
	}
	r = reply_create_aside(http_request_channel(p->q), on_step, p);
	if (session_user_edit(http_request_session(p->q), &spec, r, &err) < 0)
		reply_error(r, &err);
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
	go_on(p);
	return TIDE_OK;
}

const struct http_route http_api_routes[] = {
	{ "GET", "/api", NULL, 0, list_routes, NULL },
	{ "PUT", "/api/rules/candidate", "files", 0, upload, NULL },
	{ "PUT", "/api/users/{user}", "password tags limits", 0, put_user, NULL },
	{ 0 },
};
