#include "settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rules/api/api_tide.h"

int settings_add(struct args *settings, const char *text, struct error *err)
{
	size_t len = strcspn(text, "=");
	struct slice name = { text, len };
	const char *value = text[len] ? text + len + 1 : getenv(text);
	int rc = TIDE_OK;

	if (!slice_is_name(name))
		return error_set(err, TIDE_ESYNTAX,
				 "--rules-set must be NAME=VALUE, or the NAME of an "
				 "environment variable, not '%s'",
				 text);
	if (!value)
		return error_set(err, TIDE_ESYNTAX,
				 "--rules-set %s: there is no environment variable of "
				 "that name; write %s=VALUE",
				 text, text);
	char *own = mem_strndup(name.data, name.len);
	if (args_get(settings, own))
		args_set(settings, own, value);
	else if (args_add(settings, name, slice_from(value)) != TIDE_OK)
		rc = error_set(err, TIDE_ESYNTAX, "--rules-set may be given %d times",
			       ARGS_MAX);
	mem_free(own);
	return rc;
}

void settings_inherit(struct args *out)
{
	const char *text = getenv(API_SETTING_VARIABLE);

	/* A text that is not of a broker counts as none. */
	if (text && args_parse(out, slice_from(text)) != TIDE_OK)
		*out = (struct args){ 0 };
}

void settings_pass_on(const struct args *settings)
{
	struct buf text = { 0 };

	args_format(settings, &text);
	setenv(API_SETTING_VARIABLE, buf_cstr(&text), 1);
	buf_deinit(&text);
}
