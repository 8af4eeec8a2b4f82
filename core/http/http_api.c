#include "http_api.h"

#include "base/id.h"
#include "http_request_private.h"

struct slice http_api_need(struct http_request *q, const char *name, const char *what)
{
	struct slice value = http_request_text(q, name);

	if (!value.data && q->rc == TIDE_OK)
		q->rc = error_set(&q->err, TIDE_ESYNTAX, "%s is missing: expected %s",
				  name, what);
	return value;
}

struct slice http_api_need_name(struct http_request *q, const char *name)
{
	http_api_need(q, name, "a name");
	return http_request_name(q, name);
}

struct slice http_api_word(struct http_request *q, const char *name)
{
	struct slice word = http_request_path(q, name);

	return slice_is(word, "-") ? SLICE("") : word;
}

uint64_t http_api_id(struct http_request *q)
{
	struct slice text = http_request_path(q, "id");
	uint64_t id = 0;

	if (id_parse(text, &id) < 0)
		http_request_refuse(q, "id", text, "%d hexadecimal digits", ID_HEX_LEN);
	return id;
}

struct position http_api_position(struct http_request *q, const char *name)
{
	struct slice text = http_request_text(q, name);
	struct position position = { 0 };

	if (q->rc == TIDE_OK && text.data)
		q->rc = position_parse(text, &position, &q->err);
	return position;
}

double http_api_share(struct http_request *q, const char *name)
{
	struct slice text = http_request_text(q, name);
	double share = 0;

	if (q->rc == TIDE_OK && text.data)
		q->rc = session_rules_read_share(text, &share, &q->err);
	return share;
}

int http_api_list(struct http_request *q, enum list_what what, struct reply *r,
		  struct error *err)
{
	const struct number_limits any = { 0, UINT32_MAX };
	struct list_spec spec = { .what = what };

	spec.sort = http_request_text(q, "sort");
	spec.match = http_request_text(q, "match");
	spec.offset = http_request_uint(q, "offset", any, 0);
	spec.max = http_request_uint(q, "max", any, 0);
	if (http_request_text(q, "order").data)
		spec.direction = http_request_choice(q, "order", "asc or desc")
					 ? LIST_DESCENDING
					 : LIST_ASCENDING;
	for (int i = 0; i < LIST_MEMBERS; i++)
		spec.only[i] = http_request_text(q, session_list_members[i]);
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_list(http_request_session(q), &spec, r, err);
}

int http_api_declare(struct http_request *q, struct declare_spec *spec, struct reply *r,
		     struct error *err)
{
	struct args args;
	bool is_update = http_request_flag(q, "update");
	int rc;

	http_request_args(q, "options", &args);
	spec->args = &args;
	rc = http_request_check(q, err);
	if (rc == TIDE_OK && is_update) {
		rc = args_add(&args, SLICE("update"), SLICE("1"));
		if (rc < 0)
			error_set(err, rc, "'update' belongs beside 'options', once");
	}
	if (rc == TIDE_OK)
		rc = session_define_declare(http_request_session(q), spec, r, err);
	args_deinit(&args);
	return rc;
}
