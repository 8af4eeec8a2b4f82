#include "exchange_document.h"

#include "rules/engine/index.h"
#include "session_private.h"

void exchange_document_kind(const struct exchange *x, struct json *j)
{
	json_member_text(j, "type", x->type);
	json_member_bool(j, "durable", x->config.is_durable);
	json_member_bool(j, "auto_delete", x->config.is_auto_delete);
}

/* Without those that are members of their own. */
static void write_options(struct json *j, const struct config *c)
{
	struct args options;

	config_options(c, &options);
	json_member_object(j, "options");
	for (size_t i = 0; i < options.count; i++)
		if (strcmp(options.items[i].name, "durable") != 0 &&
		    strcmp(options.items[i].name, "auto-delete") != 0)
			json_member_text(j, options.items[i].name,
					 options.items[i].value);
	json_object_end(j);
	args_deinit(&options);
}

void exchange_document_options(const struct exchange *x, struct json *j)
{
	if (x->definition.unusable)
		json_member_text(j, "unusable", x->definition.unusable);
	else
		json_member_text(j, "script", index_script(x->indexes[RULESET_ACTIVE]));
	write_options(j, &x->config);
	if (!x->policy)
		return;
	config_write("declared", terms_own(&x->terms), j);
	json_member_text(j, "policy", x->policy);
}
