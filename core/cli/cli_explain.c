/* cli_explain.c: explain. */
#include <inttypes.h>

#include "cli_table.h"

static void add_given(struct cli *cli, const struct command_given *given)
{
	const char *name = given->option->name;
	struct buf header = { 0 };

	if (strcmp(name, "header") == 0 && !strchr(given->text, '=')) {
		cli->status = cli_usage_error(
			cli, "--header must be NAME=VALUE, not '%s'", given->text);
	} else if (strcmp(name, "header") == 0) {
		buf_printf(&header, "h:%s", given->text);
		cli_add_option(cli, buf_cstr(&header));
		buf_deinit(&header);
	} else if (strcmp(name, "priority") == 0) {
		buf_printf(&cli->request, " pri=%" PRIu64, given->value);
	} else if (given->option->type == OPTION_DURATION) {
		buf_printf(&cli->request, " %s=%" PRIu64, name, given->value);
	} else if (strcmp(name, "payload") == 0 || strcmp(name, "id") == 0) {
		cli_add_value(cli, slice_from(name), given->text);
	}
}

#define QUEUE "{queue}/[partition?{partition}][partition!{shard}]"
#define CHANGE                                                        \
	"{name|field}: [from_bytes?{from_bytes} -> {to_bytes} bytes]" \
	"[from_bytes!{from} -> {to}]"

/* In each object of the document's array `name`, write the array `member` as a text: its
 * items by the template. Tables have no lists in their cells. */
static void flatten(json_t *document, const char *name, const char *member,
		    const char *template)
{
	json_t *object, *text;
	size_t i;

	json_array_foreach(json_object_get(document, name), i, object)
	{
		struct buf out = { 0 };

		cli_table_join(&out, template, json_object_get(object, member));
		text = buf_len(&out) ? json_string(buf_cstr(&out)) : json_null();
		json_object_set_new(object, member, text);
		buf_deinit(&out);
	}
}

static int run_explain(struct cli *cli)
{
	static const struct cli_table_view view = {
		.units = "delay:duration due:time ttl:duration expires:time",
		.arrays = {
			{ "exchanges", "exchange type script line? bindings matched patterns" },
			{ "queues",
			  "queue binding? exchange? shard partition sharding rank "
			  "priority shard_cached partition_cached rank_cached retry "
			  "state durable dedupe? "
			  "dedupe_window:duration? first? remembered_until:time?" },
			{ "filters", "script model? line? copy? match_exchange match_key rejected? "
				     "changes copies us" },
			{ "copies", "copy by exchange key queues delay:duration? "
				    "ttl:duration? headers" },
			{ "scripts", "script calls us" },
		},
	};
	json_t *document;

	buf_append_text(&cli->request, "EXPLAIN");
	cli_add_word(cli, cli->words[0]);
	cli_add_word(cli, cli->words[1]);
	for (int i = 0; i < cli->line.given_count && cli->status == CLI_DONE; i++)
		add_given(cli, &cli->line.given[i]);
	if (cli->word_count > 2)
		cli_add_value(cli, SLICE("payload"), cli->words[2]);
	document = cli_table_ask_document(cli);
	if (!document)
		return cli->status;
	flatten(document, "exchanges", "patterns", "{pattern} -> {queue|exchange}");
	flatten(document, "filters", "changes", CHANGE);
	flatten(document, "copies", "queues", QUEUE);
	return cli_table_print_take(document, &view);
}

static const struct option_row options[] = {
	{ COMMAND_TEXT("header", "NAME=VALUE", NULL, "a header; may be repeated") },
	{ COMMAND_NUMBER("priority", "0", "0-255", 0, 255) },
	{ COMMAND_DURATION("delay", NULL, "as with pub", 0, 0) },
	{ COMMAND_DURATION("ttl", NULL, "as with pub", 0, 0) },
	{ COMMAND_TEXT("id", "ID", NULL, "as with pub") },
	{ COMMAND_TEXT("payload", "TEXT", NULL, "the same as PAYLOAD") },
	{ .name = NULL },
};

const struct cli_verb cli_explain_verbs[] = {
	{ .name = "explain",
	  .summary = "show what a publish would do and which scripts would decide it",
	  .usage = "[options] EXCHANGE KEY [PAYLOAD]",
	  .details =
		  "What follows is that of `tidemq pub`. A PAYLOAD is for scripts that "
		  "look at it.",
	  .examples = "  tidemq explain orders orders.eu.paid --header tier=gold\n"
		      "  tidemq explain sales new '{\"total\":1200}'\n",
	  .options = options,
	  .words_min = 2,
	  .words_max = 3,
	  .run = run_explain },
	{ .name = NULL },
};
