/* USER: who may come to the broker, and what he may do there. */
#include "verb.h"

#include "line.h"

/* In the order of enum user_edit, and one more. */
#define EDITS "add, passwd, delete, grant, revoke, set or list"
#define EDIT_LIST (USER_EDIT_SET + 1)

/* What each takes beside the name. */
static const struct {
	bool has_vhost;
	const char *options;
} edits[] = {
	[USER_EDIT_ADD] = { false, "pass tags" },
	[USER_EDIT_PASSWORD] = { false, "pass" },
	[USER_EDIT_DELETE] = { false, NULL },
	[USER_EDIT_GRANT] = { true, "configure write read" },
	[USER_EDIT_REVOKE] = { true, NULL },
	[USER_EDIT_SET] = { false, "tags " COMMAND_USER_LIMITS },
	[EDIT_LIST] = { false, NULL },
};

/* The value of an option is not told: it may be a password. */
static int check_options(struct request *q, unsigned edit)
{
	const char *takes = edits[edit].options;

	for (unsigned i = 0; i < q->option_count; i++)
		if (!slice_is_listed(q->options[i].name, takes))
			return error_set(q->err, TIDE_ESYNTAX,
					 "USER %" SLICE_FMT " has no option '%" SLICE_FMT
					 "'; it takes: %s",
					 SLICE_ARG(q->words[0]),
					 SLICE_ARG(q->options[i].name),
					 takes ? takes : "none");
	return TIDE_OK;
}

static int check_words(struct request *q, unsigned edit)
{
	unsigned wanted = edit == EDIT_LIST ? 1 : 2 + edits[edit].has_vhost;

	if (q->word_count == wanted)
		return TIDE_OK;
	return error_set(q->err, TIDE_ESYNTAX, "USER %" SLICE_FMT " takes %s",
			 SLICE_ARG(q->words[0]),
			 wanted == 1   ? "no words"
			 : wanted == 2 ? "the name of a user"
				       : "the name of a user and a vhost");
}

static void read_limits(struct request *q, struct user_spec *spec)
{
	const struct number_limits any = { 0, UINT64_C(1) << 53 };
	struct slice rest = SLICE(COMMAND_USER_LIMITS);

	while (rest.len > 0) {
		struct slice name = slice_cut(&rest, ' ');
		char text[VERB_NAME_MAX + 1] = { 0 };

		memcpy(text, name.data, name.len);
		if (!request_option(q, text).data)
			continue;
		spec->limits[spec->limit_count].name = name;
		spec->limits[spec->limit_count++].value = request_uint(q, text, any, 0);
	}
}

COMMAND(user)
{
	struct user_spec spec = { .password = request_option(q, "pass"),
				  .tags = request_option(q, "tags"),
				  .configure = request_option(q, "configure"),
				  .write = request_option(q, "write"),
				  .read = request_option(q, "read") };
	unsigned edit;

	if (!slice_is_choice(q->words[0], EDITS, &edit))
		return error_set(q->err, TIDE_ESYNTAX, "USER takes: " EDITS);
	if (check_words(q, edit) < 0 || check_options(q, edit) < 0)
		return q->err->code;
	if (edit == EDIT_LIST)
		return session_user_list(l->base.session, r, q->err);
	spec.edit = (enum user_edit)edit;
	spec.name = request_name(q, 1, "a user");
	if (edits[edit].has_vhost)
		spec.vhost = request_name(q, 2, "a vhost");
	read_limits(q, &spec);
	return q->rc < 0 ? q->rc : session_user_edit(l->base.session, &spec, r, q->err);
}
