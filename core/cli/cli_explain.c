/* cli_explain.c: explain. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/percent.h"
#include "cli.h"
#include "cli_table.h"

static int add_header(struct cli *cli, struct buf *line, const char *value)
{
	struct buf header;
	int status;

	if (!strchr(value, '='))
		return cli_usage_error(cli, "--header must be NAME=VALUE, not '%s'",
				       value);
	buf_init(&header);
	buf_printf(&header, "h:%s", value);
	status = cli_add_option(cli, line, buf_cstr(&header));
	buf_deinit(&header);
	return status;
}

static int add_given(struct cli *cli, struct buf *line, const struct command_given *given)
{
	const char *name = given->option->name;

	if (strcmp(name, "header") == 0)
		return add_header(cli, line, given->text);
	if (strcmp(name, "priority") == 0) {
		buf_printf(line, " pri=%" PRIu64, given->value);
	} else if (given->option->type == COMMAND_OPTION_DURATION) {
		buf_printf(line, " %s=%" PRIu64, name, given->value);
	} else if (strcmp(name, "payload") == 0 || strcmp(name, "id") == 0) {
		buf_printf(line, " %s=", name);
		percent_encode(line, slice_from(given->text));
	}
	return CLI_DONE;
}

/* The words of a PUB, with its options, behind EXPLAIN. */
static int make_request(struct cli *cli, struct buf *line)
{
	int status;

	buf_append_text(line, "EXPLAIN");
	status = cli_add_word(cli, line, cli->words[0]);
	if (status == CLI_DONE)
		status = cli_add_word(cli, line, cli->words[1]);
	for (int i = 0; i < cli->line.given_count && status == CLI_DONE; i++)
		status = add_given(cli, line, &cli->line.given[i]);
	return status;
}

static const char *text_of(const json_t *value)
{
	return json_is_string(value) ? json_string_value(value) : "-";
}

static void add_change(struct buf *out, const json_t *change)
{
	const char *field = text_of(json_object_get(change, "field"));
	const json_t *from = json_object_get(change, "from");
	const json_t *to = json_object_get(change, "to");

	if (json_object_get(change, "name"))
		field = text_of(json_object_get(change, "name"));
	if (json_object_get(change, "from_bytes"))
		buf_printf(
			out,
			"%s: %" JSON_INTEGER_FORMAT " -> %" JSON_INTEGER_FORMAT " bytes",
			field, json_integer_value(json_object_get(change, "from_bytes")),
			json_integer_value(json_object_get(change, "to_bytes")));
	else if (json_is_integer(from))
		buf_printf(out, "%s: %" JSON_INTEGER_FORMAT " -> %" JSON_INTEGER_FORMAT,
			   field, json_integer_value(from), json_integer_value(to));
	else
		buf_printf(out, "%s: %s -> %s", field, text_of(from), text_of(to));
}

static void add_pattern(struct buf *out, const json_t *binding)
{
	const json_t *queue = json_object_get(binding, "queue");

	buf_printf(out, "%s -> %s", text_of(json_object_get(binding, "pattern")),
		   text_of(queue ? queue : json_object_get(binding, "exchange")));
}

static void add_queue(struct buf *out, const json_t *queue)
{
	buf_printf(out, "%s/%" JSON_INTEGER_FORMAT,
		   text_of(json_object_get(queue, "queue")),
		   json_integer_value(json_object_get(queue, "shard")));
}

/* In each object of the document's array `name`, write the array `member` as a
 * text. */
static void flatten(json_t *document, const char *name, const char *member,
		    void (*add)(struct buf *out, const json_t *item))
{
	json_t *object, *item, *text;
	size_t i, n;

	json_array_foreach(json_object_get(document, name), i, object)
	{
		struct buf out;
		buf_init(&out);
		json_array_foreach(json_object_get(object, member), n, item)
		{
			if (n > 0)
				buf_append_text(&out, ", ");
			add(&out, item);
		}
		text = buf_len(&out) ? json_string(buf_cstr(&out)) : json_null();
		json_object_set_new(object, member, text);
		buf_deinit(&out);
	}
}

/* Of each copy, what a table has room for. */
static void shorten_copies(json_t *document)
{
	static const char *const members[] = { "copy",   "by",    "exchange", "key",
					       "queues", "delay", "ttl",      "headers" };
	json_t *copies = json_object_get(document, "copies"), *copy;
	size_t i;

	json_array_foreach(copies, i, copy)
	{
		json_t *kept = json_object();
		for (size_t m = 0; m < sizeof(members) / sizeof(members[0]); m++)
			json_object_set(kept, members[m],
					json_object_get(copy, members[m]));
		json_array_set_new(copies, i, kept);
	}
}

static const struct cli_table_view view = {
	.units = "delay:duration due:time ttl:duration expires:time",
	.arrays = {
		{ "exchanges", "exchange type script bindings matched patterns" },
		{ "queues", "queue binding? exchange? shard sharding rank priority "
			    "shard_cached rank_cached retry state durable dedupe? "
			    "dedupe_window:duration? first? remembered_until:time?" },
		{ "filters", "script copy? match_exchange match_key rejected? changes "
			     "copies us" },
		{ "copies", "copy by exchange key queues delay:duration? ttl:duration? "
			    "headers" },
		{ "scripts", "script calls us" },
	},
};

static int print(const struct tidemq_reply *reply)
{
	json_t *document = json_loadb(reply->text, reply->len, 0, NULL);
	char *text;
	int status;

	if (!document)
		return cli_failure("the broker's answer is no JSON");
	flatten(document, "exchanges", "patterns", add_pattern);
	flatten(document, "filters", "changes", add_change);
	flatten(document, "copies", "queues", add_queue);
	shorten_copies(document);
	text = json_dumps(document, JSON_COMPACT);
	json_decref(document);
	status = text ? cli_table_print_object(text, strlen(text), &view) : CLI_FAILED;
	free(text);
	return status;
}

static int run_explain(struct cli *cli)
{
	struct tidemq_reply reply;
	struct buf line;
	int status;

	buf_init(&line);
	status = make_request(cli, &line);
	status = cli_ask_take(cli, &line, status, &reply);
	if (status != CLI_DONE)
		return status;
	if (!cli->json)
		return print(&reply);
	puts(reply.text);
	return CLI_DONE;
}

static const struct command_option options[] = {
	{ COMMAND_TEXT("header", "NAME=VALUE", NULL, "a header; may be repeated") },
	{ COMMAND_NUMBER("priority", "0", "0-255", 0, 255) },
	{ COMMAND_DURATION("delay", NULL, "as with pub", 0, 0) },
	{ COMMAND_DURATION("ttl", NULL, "as with pub", 0, 0) },
	{ COMMAND_TEXT("id", "ID", NULL, "as with pub") },
	{ COMMAND_TEXT("payload", "TEXT", NULL, "for filters that look at it") },
	{ .name = NULL },
};

const struct cli_verb cli_explain_verbs[] = {
	{ .name = "explain",
	  .summary = "show what a publish would do and which rules would decide it",
	  .usage = "[options] EXCHANGE KEY",
	  .options = options,
	  .words_min = 2,
	  .words_max = 2,
	  .run = run_explain },
	{ .name = NULL },
};
