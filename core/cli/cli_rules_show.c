#include "cli_rules_show.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli_table.h"

/* The document of RULES status, which has an array of scripts; or NULL. */
static json_t *ask_status(struct cli *cli, json_t **scripts)
{
	struct tidemq_reply reply;
	json_t *status;

	buf_append_text(&cli->request, "RULES status");
	if (cli_ask(cli, &reply) != CLI_DONE)
		return NULL;
	status = cli_table_parse(cli, &reply);
	*scripts = json_object_get(status, "scripts");
	return status;
}

static void print_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_COMPACT);
	putchar('\n');
}

static json_int_t integer_of(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static int by_time(const void *a, const void *b)
{
	json_int_t x = integer_of(*(json_t *const *)a, "time_us");
	json_int_t y = integer_of(*(json_t *const *)b, "time_us");

	return x < y ? 1 : x > y ? -1 : 0;
}

static json_t *make_row(json_t *script)
{
	static const char *const copied[] = { "calls",    "cache_hits", "errors",
					      "overruns", "skipped",    "time_us",
					      "circuit" };
	json_t *row =
		json_pack("{s:O?,s:f,s:f,s:f}", "script", json_object_get(script, "file"),
			  "p50_us", (double)integer_of(script, "p50_ns") / 1000, "p99_us",
			  (double)integer_of(script, "p99_ns") / 1000, "max_us",
			  (double)integer_of(script, "max_ns") / 1000);

	for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++)
		json_object_set(row, copied[i], json_object_get(script, copied[i]));
	return row;
}

static json_t *make_rows(const json_t *scripts)
{
	size_t count = json_array_size(scripts);
	json_t **sorted = mem_alloc((count + 1) * sizeof(*sorted)), *rows = json_array();

	for (size_t i = 0; i < count; i++)
		sorted[i] = json_array_get(scripts, i);
	qsort(sorted, count, sizeof(*sorted), by_time);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(rows, make_row(sorted[i]));
	mem_free(sorted);
	return rows;
}

int cli_rules_show_top(struct cli *cli)
{
	static const struct cli_table_view view = {
		.columns = "script calls cache_hits errors overruns skipped p50_us "
			   "p99_us max_us "
			   "time_us circuit"
	};
	json_t *scripts, *rows, *document = ask_status(cli, &scripts);

	if (!document)
		return cli->status;
	rows = make_rows(scripts);
	json_decref(document);
	if (!cli->json)
		return cli_table_print_take(rows, &view);
	print_json(rows);
	json_decref(rows);
	return CLI_DONE;
}

/* "topic" or "routing/topic" */
static bool is_named(const json_t *script, const char *wanted)
{
	const char *kind = cli_table_text(script, "kind", "");
	size_t len = strlen(kind);
	bool has_kind = strncmp(wanted, kind, len) == 0 && wanted[len] == '/';

	return strcmp(has_kind ? wanted + len + 1 : wanted,
		      cli_table_text(script, "name", "")) == 0;
}

static void append_number(struct buf *out, const char *word, const json_t *value)
{
	if (value)
		buf_printf(out, "%s%s %.15g", buf_len(out) ? ", " : "", word,
			   json_number_value(value));
}

/* What the option may be besides its type, in words. */
static void add_allowed(json_t *option)
{
	struct buf out = { 0 };
	size_t i;
	json_t *choice;

	if (json_is_true(json_object_get(option, "required")))
		buf_append_text(&out, "required");
	append_number(&out, "from", json_object_get(option, "min"));
	append_number(&out, "to", json_object_get(option, "max"));
	json_array_foreach(json_object_get(option, "choices"), i, choice)
	{
		const char *comma = buf_len(&out) ? ", " : "";

		buf_printf(&out, "%s%s", i == 0 ? comma : " or ",
			   json_string_value(choice));
	}
	if (buf_len(&out) > 0)
		json_object_set_new(option, "allowed", json_string(buf_cstr(&out)));
	buf_deinit(&out);
}

static int print_options(json_t *options, const char *title)
{
	static const struct cli_table_view view = {
		.columns = "name type default allowed doc"
	};
	size_t i;
	json_t *option;

	if (json_array_size(options) == 0)
		return CLI_DONE;
	json_array_foreach(options, i, option) add_allowed(option);
	printf("\n%s\n", title);
	return cli_table_print_take(json_incref(options), &view);
}

static int print_script(json_t *script)
{
	static const struct cli_table_view view = {
		.units = "circuit_since_ms:time last_error_ms:time",
	};
	json_t *head = json_copy(script);
	int status;

	json_object_del(head, "options");
	json_object_del(head, "binding_options");
	json_object_del(head, "histogram");
	status = cli_table_print_take(head, &view);
	if (status == CLI_DONE)
		status = print_options(json_object_get(script, "options"), "options");
	if (status == CLI_DONE)
		status = print_options(json_object_get(script, "binding_options"),
				       "options of BIND");
	return status;
}

static int refuse_name(const json_t *scripts, const char *wanted)
{
	struct buf names = { 0 };
	size_t i;
	json_t *script;

	json_array_foreach(scripts, i, script)
		buf_printf(&names, " %s/%s", cli_table_text(script, "kind", ""),
			   cli_table_text(script, "name", ""));
	cli_failure("there is no script '%s'; there are:%s", wanted, buf_cstr(&names));
	buf_deinit(&names);
	return CLI_FAILED;
}

int cli_rules_show(struct cli *cli)
{
	const char *name = cli->words[1];
	json_t *scripts, *script, *document = ask_status(cli, &scripts);
	int status = CLI_DONE;
	size_t shown = 0, i;

	if (!document)
		return cli->status;
	json_array_foreach(scripts, i, script)
	{
		if (!is_named(script, name) || status != CLI_DONE)
			continue;
		if (shown++ > 0 && !cli->json)
			putchar('\n');
		if (cli->json)
			print_json(script);
		else
			status = print_script(script);
	}
	if (shown == 0)
		status = refuse_name(scripts, name);
	json_decref(document);
	return status;
}
