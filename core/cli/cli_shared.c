/* cli_shared.c: shared: what scripts keep in tide.shared. */
#include <inttypes.h>
#include <string.h>

#include "cli_table.h"

/* "SHARED list prefix=… of=…" */
static void write_scan(struct cli *cli, json_int_t cursor)
{
	buf_clear(&cli->request);
	buf_printf(&cli->request, "SHARED %s", cli->words[0]);
	if (cli->word_count > 1)
		cli_add_value(cli, SLICE("prefix"), cli->words[1]);
	cli_add_value(cli, SLICE("of"), cli_get(cli, "of"));
	if (cursor)
		buf_printf(&cli->request, " cursor=%" JSON_INTEGER_FORMAT, cursor);
}

/* One answer after the other, up to so many entries.
 *
 * @param entries  those of all answers; NULL: they have none
 * @return         what was removed */
static json_int_t scan(struct cli *cli, json_t *entries, size_t max)
{
	json_int_t cursor = 0, removed = 0;
	struct tidemq_reply reply;

	do {
		json_t *document;

		write_scan(cli, cursor);
		if (cli_ask(cli, &reply) != CLI_DONE)
			return removed;
		document = cli_table_parse(cli, &reply);
		cursor = json_integer_value(json_object_get(document, "cursor"));
		removed += json_integer_value(json_object_get(document, "removed"));
		if (entries && document)
			json_array_extend(entries, json_object_get(document, "entries"));
		json_decref(document);
	} while (cursor && cli->status == CLI_DONE &&
		 (!entries || json_array_size(entries) < max));
	return removed;
}

static int run_list(struct cli *cli)
{
	static const struct cli_table_view view = {
		.columns = "key type value ttl_ms:duration bytes file vhost"
	};
	size_t max = (size_t)cli_number(cli, "max");
	json_t *entries = json_array();

	scan(cli, entries, max);
	while (json_array_size(entries) > max)
		json_array_remove(entries, json_array_size(entries) - 1);
	if (cli->status == CLI_DONE && !cli->json)
		return cli_table_print_take(entries, &view);
	if (cli->status == CLI_DONE) {
		json_dumpf(entries, stdout, JSON_COMPACT);
		putchar('\n');
	}
	json_decref(entries);
	return cli->status;
}

static int run_clear(struct cli *cli)
{
	json_int_t removed = scan(cli, NULL, 0);

	if (cli->status == CLI_DONE)
		printf(cli->json ? "{\"removed\":%" JSON_INTEGER_FORMAT "}\n"
				 : "%" JSON_INTEGER_FORMAT " removed\n",
		       removed);
	return cli->status;
}

static void write_entry(struct cli *cli)
{
	buf_printf(&cli->request, "SHARED %s", cli->words[0]);
	cli_add_value(cli, SLICE("key"), cli->words[1]);
}

/* The value alone, as it is. */
static int run_get(struct cli *cli)
{
	json_t *document, *value;

	write_entry(cli);
	cli_add_value(cli, SLICE("of"), cli_get(cli, "of"));
	document = cli_table_ask_document(cli);
	if (!document)
		return cli->status;
	value = json_object_get(document, "value");
	if (json_is_string(value))
		fwrite(json_string_value(value), 1, json_string_length(value), stdout);
	else
		json_dumpf(value, stdout, JSON_ENCODE_ANY);
	putchar('\n');
	json_decref(document);
	return CLI_DONE;
}

static int finish(struct cli *cli)
{
	struct tidemq_reply reply;

	if (cli_ask(cli, &reply) == CLI_DONE && cli->json)
		puts("{\"ok\":true}");
	return cli->status;
}

static int run_set(struct cli *cli)
{
	write_entry(cli);
	cli_add_value(cli, SLICE("value"), cli->words[2]);
	if (cli_is_given(cli, "type"))
		cli_add_value(cli, SLICE("type"), cli_get(cli, "type"));
	if (cli_is_given(cli, "ttl"))
		buf_printf(&cli->request, " ttl=%" PRIu64, cli_number(cli, "ttl"));
	return finish(cli);
}

static int run_delete(struct cli *cli)
{
	write_entry(cli);
	cli_add_value(cli, SLICE("of"), cli_get(cli, "of"));
	return finish(cli);
}

static const struct {
	const char *name;
	int words_min, words_max; /* with the name */
	int (*run)(struct cli *cli);
} words[] = {
	{ "list", 1, 2, run_list },   { "get", 2, 2, run_get },
	{ "set", 3, 3, run_set },     { "delete", 2, 2, run_delete },
	{ "clear", 1, 2, run_clear },
};

static int run_shared(struct cli *cli)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(cli->words[0], words[i].name) != 0)
			continue;
		if (cli->word_count < words[i].words_min ||
		    cli->word_count > words[i].words_max)
			return cli_count_error(cli, words[i].name, words[i].words_min - 1,
					       words[i].words_max - 1,
					       cli->word_count - 1);
		return words[i].run(cli);
	}
	return cli_usage_error(cli,
			       "there is no verb 'shared %s'; expected one of list, "
			       "get, set, delete, clear",
			       cli->words[0]);
}

static const struct option_row options[] = {
	{ COMMAND_CHOICE("of", "keys|counters|buckets", "keys",
			 "list, get, delete, clear: entries of tide.shared, of "
			 "tide.counter or of tide.bucket") },
	{ COMMAND_NUMBER("max", "1000", "list: as many entries at most", 1, 100000000) },
	{ COMMAND_DURATION("ttl", NULL, "set: the entry is removed after this time", 1,
			   UINT64_C(366) * 24 * 3600 * 1000 * 100) },
	{ COMMAND_CHOICE("type", "string|integer|number|boolean", NULL,
			 "set: the type of the value, by default that of the entry, or "
			 "string") },
	{ .name = NULL },
};

const struct cli_verb cli_shared_verbs[] = {
	{ .name = "shared",
	  .summary = "show and change what scripts keep in tide.shared",
	  .usage = "[options] list [PREFIX] | get KEY | set KEY VALUE | delete KEY |\n"
		   "       clear [PREFIX]",
	  .details = "list     the entries whose key begins with PREFIX, in no order\n"
		     "get      the value of an entry\n"
		     "set      make or change an entry; without --ttl it stays\n"
		     "delete   remove an entry\n"
		     "clear    remove the entries whose key begins with PREFIX, or all",
	  .examples = "  tidemq shared list limit:\n"
		      "  tidemq shared set limit:acme 500 --type integer\n"
		      "  tidemq shared delete rate_limit/acme --of buckets\n",
	  .options = options,
	  .words_min = 1,
	  .words_max = 3,
	  .run = run_shared },
	{ .name = NULL },
};
