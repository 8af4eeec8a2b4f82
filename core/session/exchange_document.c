#include "exchange_document.h"

#include "rules/engine/index.h"
#include "session_private.h"

void exchange_document_kind(const struct exchange *x, struct json *j)
{
	json_member_text(j, "type", x->type);
	json_member_bool(j, "durable", x->config.is_durable);
	json_member_bool(j, "auto_delete", x->config.is_auto_delete);
}

static void write_options(struct json *j, const char *name,
			  const struct exchange_config *c)
{
	json_member_object(j, name);
	if (c->alternate)
		json_member_text(j, "alternate", c->alternate);
	if (c->is_internal)
		json_member_text(j, "internal", "1");
	for (size_t i = 0; i < c->args.count; i++)
		json_member_text(j, c->args.items[i].name, c->args.items[i].value);
	json_object_end(j);
}

void exchange_document_config(const char *name, const struct exchange_config *c,
			      struct json *j)
{
	struct args options;

	exchange_config_options(c, &options);
	json_member_object(j, name);
	for (size_t i = 0; i < options.count; i++)
		json_member_text(j, options.items[i].name, options.items[i].value);
	json_object_end(j);
	args_deinit(&options);
}

void exchange_document_options(const struct exchange *x, struct json *j)
{
	if (x->definition.unusable)
		json_member_text(j, "unusable", x->definition.unusable);
	else
		json_member_text(j, "script", index_script(x->indexes[RULESET_ACTIVE]));
	write_options(j, "options", &x->config);
	if (!x->policy)
		return;
	exchange_document_config("declared", exchange_own(x), j);
	json_member_text(j, "policy", x->policy);
}
