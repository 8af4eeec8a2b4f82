/* cli_rules_log.c: rules log: who made which rules active, a line each. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "cli.h"
#include "cli_table.h"

#define NAMES_WIDTH_MAX 40 /* of a kind of change; beyond it the files are counted */

static size_t count_of(const json_t *entry, const char *kind, const json_t *names)
{
	char member[32];

	snprintf(member, sizeof(member), "%s_count", kind);
	const json_t *count = json_object_get(entry, member);
	return count ? (size_t)json_integer_value(count) : json_array_size(names);
}

/* "a.lua, b.lua", or "27 files" */
static void shorten(json_t *entry, const char *kind)
{
	json_t *names = json_object_get(entry, kind), *name;
	size_t count = count_of(entry, kind, names), i;
	struct buf out;

	if (count == 0)
		return;
	buf_init(&out);
	json_array_foreach(names, i, name)
	{
		buf_printf(&out, "%s%s", i ? ", " : "", json_string_value(name));
	}
	if (buf_len(&out) > NAMES_WIDTH_MAX || count > json_array_size(names)) {
		buf_clear(&out);
		buf_printf(&out, "%zu file%s", count, count == 1 ? "" : "s");
	}
	json_object_set_new(entry, kind, json_string(buf_cstr(&out)));
	buf_deinit(&out);
}

int cli_rules_log(struct cli *cli, const struct tidemq_reply *reply)
{
	json_t *log = json_loadb(reply->text, reply->len, 0, NULL), *entry;
	char *text;
	size_t i;
	int status;

	if (!log)
		return cli_failure("the broker's answer is no JSON");
	json_array_foreach(log, i, entry)
	{
		shorten(entry, "added");
		shorten(entry, "changed");
		shorten(entry, "removed");
	}
	text = json_dumps(log, JSON_COMPACT);
	json_decref(log);
	status = text ? cli_table_print(
				text, strlen(text), NULL,
				"number loaded_ms:time origin by result hash added "
				"changed removed error")
		      : CLI_FAILED;
	free(text);
	return status;
}
