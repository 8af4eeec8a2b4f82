/* cli_define.c: declare, delete, bind, unbind, purge, kick: verbs whose words are the
 * protocol's, and whose reply is OK. */
#include <inttypes.h>

#include "cli.h"

#define WORDS_MAX 80

/* Names, then options. */
static void add_words(struct cli *cli, int name_count)
{
	for (int i = 0; i < name_count; i++)
		cli_add_word(cli, cli->words[i]);
	for (int i = name_count; i < cli->word_count; i++)
		cli_add_option(cli, cli->words[i]);
}

/* Of a reply with a count print what was `done`. */
static int finish(struct cli *cli, const char *done)
{
	struct tidemq_reply reply;

	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	if (cli->json && reply.len > 0)
		printf("{\"ok\":true,\"count\":%s}\n", reply.text);
	else if (cli->json)
		puts("{\"ok\":true}");
	else if (reply.len > 0)
		printf("%s %s message%s\n", done, reply.text,
		       strcmp(reply.text, "1") == 0 ? "" : "s");
	return CLI_DONE;
}

static bool is_exchange(const struct cli *cli)
{
	return strcmp(cli->words[0], "exchange") == 0;
}

static int check_kind(const struct cli *cli)
{
	if (is_exchange(cli) || strcmp(cli->words[0], "queue") == 0)
		return CLI_DONE;
	return cli_usage_error(cli, "expected 'exchange' or 'queue', not '%s'",
			       cli->words[0]);
}

static int run_declare(struct cli *cli)
{
	int names = is_exchange(cli) ? 3 : 2;

	if (check_kind(cli) != CLI_DONE)
		return CLI_USAGE;
	if (cli->word_count < names)
		return cli_usage_error(cli, "the type of the exchange is missing");
	buf_append_text(&cli->request, "DECLARE");
	add_words(cli, names);
	return finish(cli, "");
}

static int run_delete(struct cli *cli)
{
	if (check_kind(cli) != CLI_DONE)
		return CLI_USAGE;
	buf_append_text(&cli->request, "DELETE");
	add_words(cli, 2);
	if (cli_is_given(cli, "if-empty"))
		cli_add_option(cli, "if-empty");
	if (cli_is_given(cli, "if-unused"))
		cli_add_option(cli, "if-unused");
	return finish(cli, "");
}

static int run_bind(struct cli *cli)
{
	buf_append_text(&cli->request, cli->verb->name);
	add_words(cli, 3);
	return finish(cli, "");
}

static int run_purge(struct cli *cli)
{
	buf_append_text(&cli->request, "PURGE");
	add_words(cli, 1);
	return finish(cli, "purged");
}

static int run_kick(struct cli *cli)
{
	uint64_t count = cli_number(cli, "count");

	buf_append_text(&cli->request, "KICK");
	add_words(cli, 1);
	if (count > 0)
		buf_printf(&cli->request, " %" PRIu64, count);
	return finish(cli, "kicked");
}

static const struct command_option delete_options[] = {
	{ COMMAND_FLAG("if-empty", "only if the queue holds no message") },
	{ COMMAND_FLAG("if-unused", "only without consumers, or bindings") },
	{ .name = NULL },
};

static const struct command_option kick_options[] = {
	{ COMMAND_NUMBER("count", "all", "how many at most", 1, UINT32_MAX) },
	{ .name = NULL },
};

#define BIND_USAGE "[options] QUEUE EXCHANGE PATTERN [NAME=VALUE...]"
#define BIND_DETAILS                                                              \
	"With dest=exchange QUEUE is the name of an exchange. Other NAME=VALUE\n" \
	"are for the exchange's routing script. PATTERN - is the empty pattern."

const struct cli_verb cli_define_verbs[] = {
	{ .name = "declare",
	  .summary = "declare an exchange or a queue",
	  .usage = "[options] exchange NAME TYPE [NAME=VALUE...] | queue NAME "
		   "[NAME=VALUE...]",
	  .details = "NAME=VALUE are the options of DECLARE in docs/protocol.md, for "
		     "example\n"
		     "tidemq declare queue jobs retry=exponential retry.base=500ms",
	  .words_min = 2,
	  .words_max = WORDS_MAX,
	  .run = run_declare },
	{ .name = "delete",
	  .summary = "delete an exchange or a queue",
	  .usage = "[options] exchange|queue NAME",
	  .options = delete_options,
	  .words_min = 2,
	  .words_max = 2,
	  .run = run_delete },
	{ .name = "bind",
	  .summary = "bind a queue to an exchange",
	  .usage = BIND_USAGE,
	  .details = BIND_DETAILS,
	  .words_min = 3,
	  .words_max = WORDS_MAX,
	  .run = run_bind },
	{ .name = "unbind",
	  .summary = "remove a binding",
	  .usage = BIND_USAGE,
	  .details = BIND_DETAILS,
	  .words_min = 3,
	  .words_max = WORDS_MAX,
	  .run = run_bind },
	{ .name = "purge",
	  .summary = "remove the messages of a queue that no consumer holds",
	  .usage = "[options] QUEUE",
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_purge },
	{ .name = "kick",
	  .summary = "make buried messages of a queue ready again",
	  .usage = "[options] QUEUE",
	  .options = kick_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_kick },
	{ .name = NULL },
};
