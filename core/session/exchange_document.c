#include "exchange_document.h"

#include "rules/engine/index.h"
#include "session_private.h"

void exchange_document_kind(const struct exchange *x, struct json *j)
{
	json_member_text(j, "type", x->type);
	json_member_bool(j, "durable", x->is_durable);
	json_member_bool(j, "auto_delete", x->is_auto_delete);
}

void exchange_document_options(const struct exchange *x, struct json *j)
{
	if (x->definition.unusable)
		json_member_text(j, "unusable", x->definition.unusable);
	else
		json_member_text(j, "script", index_script(x->indexes[RULESET_ACTIVE]));
	json_member_object(j, "options");
	if (x->alternate)
		json_member_text(j, "alternate", x->alternate);
	if (x->is_internal)
		json_member_text(j, "internal", "1");
	for (size_t i = 0; i < x->args.count; i++)
		json_member_text(j, x->args.items[i].name, x->args.items[i].value);
	json_object_end(j);
}
