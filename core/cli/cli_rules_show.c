/* cli_rules_show.c: rules top, rules show: what scripts cost, and what they take. */
#include <stdlib.h>

#include <jansson.h>

#include "base/mem.h"
#include "cli.h"
#include "cli_table.h"

#define TOP_COLUMNS                                                                     \
	"script calls cache_hits errors overruns skipped p50_us p99_us max_us time_us " \
	"circuit"
#define OPTION_COLUMNS "name type default allowed doc"

/* The document of RULES status; NULL after a message. */
static json_t *ask_status(struct cli *cli, int *status)
{
	struct tidemq_reply reply;
	struct buf line;

	json_error_t err;
	buf_init(&line);
	buf_append_text(&line, "RULES status");
	*status = cli_ask_take(cli, &line, CLI_DONE, &reply);
	if (*status != CLI_DONE)
		return NULL;
	json_t *root = json_loadb(reply.text, reply.len, 0, &err);
	if (!root || !json_is_array(json_object_get(root, "scripts"))) {
		json_decref(root);
		*status = cli_failure("the broker's document is not understood; "
				      "'rules status --json' shows it");
		return NULL;
	}
	return root;
}

/* Print an array of objects, as a table or as it is. */
static int print_array(const struct cli *cli, const json_t *array, const char *columns)
{
	int status = CLI_DONE;
	char *text = json_dumps(array, JSON_COMPACT);

	if (!text)
		return cli_failure("the broker's document is not understood");
	if (cli->json)
		puts(text);
	else
		status = cli_table_print(text, strlen(text), NULL, columns);
	free(text);
	return status;
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

static void copy_member(json_t *row, const json_t *script, const char *name)
{
	json_object_set(row, name, json_object_get(script, name));
}

static void copy_time(json_t *row, const json_t *script, const char *name, const char *ns)
{
	double us = (double)integer_of(script, ns) / 1000;

	json_object_set_new(row, name, json_real(us));
}

static json_t *make_row(const json_t *script)
{
	json_t *row = json_object();

	json_object_set(row, "script", json_object_get(script, "file"));
	copy_member(row, script, "calls");
	copy_member(row, script, "cache_hits");
	copy_member(row, script, "errors");
	copy_member(row, script, "overruns");
	copy_member(row, script, "skipped");
	copy_time(row, script, "p50_us", "p50_ns");
	copy_time(row, script, "p99_us", "p99_ns");
	copy_time(row, script, "max_us", "max_ns");
	copy_member(row, script, "time_us");
	copy_member(row, script, "circuit");
	return row;
}

int cli_rules_show_top(struct cli *cli)
{
	int status;
	json_t *root = ask_status(cli, &status);

	if (!root)
		return status;
	const json_t *scripts = json_object_get(root, "scripts");
	size_t count = json_array_size(scripts);
	json_t **sorted = mem_alloc((count + 1) * sizeof(*sorted));
	json_t *rows = json_array();
	for (size_t i = 0; i < count; i++)
		sorted[i] = json_array_get(scripts, i);
	qsort(sorted, count, sizeof(*sorted), by_time);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(rows, make_row(sorted[i]));
	mem_free(sorted);
	status = print_array(cli, rows, TOP_COLUMNS);
	json_decref(rows);
	json_decref(root);
	return status;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* "topic" or "routing/topic" */
static bool is_named(const json_t *script, const char *wanted)
{
	const char *kind = text_of(script, "kind");
	size_t len = strlen(kind);
	bool has_kind = strncmp(wanted, kind, len) == 0 && wanted[len] == '/';

	return strcmp(has_kind ? wanted + len + 1 : wanted, text_of(script, "name")) == 0;
}

static void append_number(struct buf *out, const char *word, const json_t *value)
{
	if (!value)
		return;
	buf_printf(out, "%s%s %.15g", buf_len(out) ? ", " : "", word,
		   json_number_value(value));
}

/* What the option may be besides its type, in words. */
static void add_allowed(json_t *option)
{
	struct buf out;
	const json_t *choices = json_object_get(option, "choices");

	buf_init(&out);
	if (json_is_true(json_object_get(option, "required")))
		buf_append_text(&out, "required");
	append_number(&out, "from", json_object_get(option, "min"));
	append_number(&out, "to", json_object_get(option, "max"));
	for (size_t i = 0; i < json_array_size(choices); i++)
		buf_printf(&out, "%s%s", i == 0 ? (buf_len(&out) ? ", " : "") : " or ",
			   json_string_value(json_array_get(choices, i)));
	if (buf_len(&out) > 0)
		json_object_set_new(option, "allowed", json_string(buf_cstr(&out)));
	buf_deinit(&out);
}

static int show_options(const struct cli *cli, const json_t *script, const char *member)
{
	json_t *options = json_object_get(script, member);

	if (json_array_size(options) == 0)
		return CLI_DONE;
	for (size_t i = 0; i < json_array_size(options); i++)
		add_allowed(json_array_get(options, i));
	printf("\n%s\n", strcmp(member, "options") == 0 ? "options" : "options of BIND");
	return print_array(cli, options, OPTION_COLUMNS);
}

static int show_script(const struct cli *cli, json_t *script)
{
	static const struct cli_table_view view = {
		.units = "circuit_since_ms:time last_error_ms:time",
	};
	char *text;
	json_t *head = json_deep_copy(script);

	json_object_del(head, "options");
	json_object_del(head, "binding_options");
	json_object_del(head, "histogram");
	text = json_dumps(head, JSON_COMPACT);
	int status =
		text ? cli_table_print_object(text, strlen(text), &view) : CLI_FAILED;
	free(text);
	json_decref(head);
	if (status == CLI_DONE)
		status = show_options(cli, script, "options");
	return status == CLI_DONE ? show_options(cli, script, "binding_options") : status;
}

static int refuse_name(const json_t *scripts, const char *wanted)
{
	struct buf names;

	buf_init(&names);
	for (size_t i = 0; i < json_array_size(scripts); i++) {
		const json_t *script = json_array_get(scripts, i);

		buf_printf(&names, " %s/%s", text_of(script, "kind"),
			   text_of(script, "name"));
	}
	int status = cli_failure("there is no script '%s'; there are:%s", wanted,
				 buf_cstr(&names));
	buf_deinit(&names);
	return status;
}

int cli_rules_show(struct cli *cli, const char *name)
{
	int status;
	size_t shown = 0;
	json_t *root = ask_status(cli, &status);

	if (!root)
		return status;
	json_t *scripts = json_object_get(root, "scripts");
	for (size_t i = 0; i < json_array_size(scripts) && status == CLI_DONE; i++) {
		json_t *script = json_array_get(scripts, i);

		if (!is_named(script, name))
			continue;
		if (shown++ > 0 && !cli->json)
			putchar('\n');
		if (cli->json) {
			char *text = json_dumps(script, JSON_COMPACT);

			puts(text ? text : "null");
			free(text);
		} else {
			status = show_script(cli, script);
		}
	}
	if (status == CLI_DONE && shown == 0)
		status = refuse_name(scripts, name);
	json_decref(root);
	return status;
}
