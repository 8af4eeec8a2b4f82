/* Users over HTTP. PUT makes a user what the request says, step by step. */
#include "http_route.h"

#include <jansson.h>

#include "base/mem.h"
#include "http_request_private.h"

#define USER "/api/users/{user}"
/* Not {vhost}: the admin need not enter it. */
#define GRANT USER "/grants/{of}"
#define LIMITS "max-connections, max-channels, publish-rate and publish-bytes"

static int list(struct http_request *q, struct reply *r, struct error *err)
{
	return session_user_list(http_request_session(q), r, err);
}

/* ---- PUT ---- */

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
	bool has_more = p->spec.tags.data || p->spec.limit_count > 0;

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
		spec.limit_count = 0;
	}
	r = reply_create_aside(http_request_channel(p->q), on_step, p);
	if (session_user_edit(http_request_session(p->q), &spec, r, &err) < 0)
		reply_error(r, &err);
}

static int read_limits(const struct http_request *q, struct user_spec *spec,
		       struct error *err)
{
	json_t *limits = json_object_get(http_request_json(q), "limits"), *value;
	const char *name;

	json_object_foreach(limits, name, value)
	{
		json_int_t n = json_integer_value(value);

		if (spec->limit_count == USER_SPEC_LIMITS_MAX ||
		    !json_is_integer(value) || n < 0 || n > (INT64_C(1) << 53))
			return error_set(err, TIDE_ESYNTAX,
					 "limits: expected numbers, 0 for none, for "
					 "some of: " LIMITS);
		spec->limits[spec->limit_count].name = slice_from(name);
		spec->limits[spec->limit_count++].value = (uint64_t)n;
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

static int put(struct http_request *q, struct reply *r, struct error *err)
{
	struct http_user_put *p;
	struct user_spec spec = {
		.name = http_request_path(q, "user"),
		.password = http_request_text(q, "password"),
		.tags = read_tags(q),
	};

	if (http_request_check(q, err) < 0 || read_limits(q, &spec, err) < 0)
		return err->code;
	p = mem_zalloc(sizeof(*p));
	p->q = q;
	p->answer = r;
	p->spec = spec;
	go_on(p);
	return TIDE_OK;
}

/* ---- the rest ---- */

static int edit(struct http_request *q, struct user_spec *spec, struct reply *r,
		struct error *err)
{
	spec->name = http_request_path(q, "user");
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_user_edit(http_request_session(q), spec, r, err);
}

static int delete (struct http_request *q, struct reply *r, struct error *err)
{
	struct user_spec spec = { .edit = USER_EDIT_DELETE };

	return edit(q, &spec, r, err);
}

static int grant(struct http_request *q, struct reply *r, struct error *err)
{
	struct user_spec spec = {
		.edit = USER_EDIT_GRANT,
		.vhost = http_request_path(q, "of"),
		.configure = http_request_text(q, "configure"),
		.write = http_request_text(q, "write"),
		.read = http_request_text(q, "read"),
	};

	return edit(q, &spec, r, err);
}

static int revoke_grant(struct http_request *q, struct reply *r, struct error *err)
{
	struct user_spec spec = { .edit = USER_EDIT_REVOKE,
				  .vhost = http_request_path(q, "of") };

	return edit(q, &spec, r, err);
}

const struct http_route http_api_users_routes[] = {
	{ "GET", "/api/users", NULL, HTTP_PAGED, list },
	{ "PUT", USER, "password tags limits", 0, put },
	{ "DELETE", USER, NULL, 0, delete },
	{ "PUT", GRANT, "configure write read", 0, grant },
	{ "DELETE", GRANT, NULL, 0, revoke_grant },
	{ 0 },
};
