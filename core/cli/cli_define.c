/* cli_define.c: declare, delete, bind, unbind, purge, kick: verbs whose words
 * are the protocol's, and whose reply is OK. */
#include "cli.h"

#define WORDS_MAX 80

static int finish(struct cli *cli, struct buf *line, int status, const char *done)
{
	struct tidemq_reply reply;

	status = cli_ask_take(cli, line, status, &reply);
	if (status != CLI_DONE)
		return status;
	if (cli->json && reply.len > 0)
		printf("{\"ok\":true,\"count\":%s}\n", reply.text);
	else if (cli->json)
		puts("{\"ok\":true}");
	else if (reply.len > 0)
		printf("%s %s message%s\n", done, reply.text,
		       strcmp(reply.text, "1") == 0 ? "" : "s");
	return CLI_DONE;
}

static int add_words(struct cli *cli, struct buf *line, int first, int last)
{
	int status = CLI_DONE;

	for (int i = first; i < last && status == CLI_DONE; i++)
		status = cli_add_word(cli, line, cli->words[i]);
	return status;
}

static int add_options(struct cli *cli, struct buf *line, int first)
{
	int status = CLI_DONE;

	for (int i = first; i < cli->word_count && status == CLI_DONE; i++)
		status = cli_add_option(cli, line, cli->words[i]);
	return status;
}

static bool is_exchange(const struct cli *cli)
{
	return strcmp(cli->words[0], "exchange") == 0;
}

static int check_kind(const struct cli *cli)
{
	if (is_exchange(cli) || strcmp(cli->words[0], "queue") == 0)
		return CLI_DONE;
	return cli_usage_error(cli, "say 'exchange' or 'queue', not '%s'", cli->words[0]);
}

static int run_declare(struct cli *cli)
{
	struct buf line;
	int status = check_kind(cli);

	if (status != CLI_DONE)
		return status;
	int names = is_exchange(cli) ? 3 : 2;
	if (cli->word_count < names)
		return cli_usage_error(cli, "say of which type the exchange is");
	buf_init(&line);
	buf_append_text(&line, "DECLARE");
	status = add_words(cli, &line, 0, names);
	if (status == CLI_DONE)
		status = add_options(cli, &line, names);
	return finish(cli, &line, status, "");
}

static int run_delete(struct cli *cli)
{
	struct buf line;
	int status = check_kind(cli);

	if (status != CLI_DONE)
		return status;
	buf_init(&line);
	buf_append_text(&line, "DELETE");
	status = add_words(cli, &line, 0, 2);
	if (cli_is_given(cli, "if-empty"))
		buf_append_text(&line, " if-empty");
	if (cli_is_given(cli, "if-unused"))
		buf_append_text(&line, " if-unused");
	return finish(cli, &line, status, "");
}

static int bind_or_unbind(struct cli *cli, const char *verb)
{
	struct buf line;

	buf_init(&line);
	buf_append_text(&line, verb);
	int status = add_words(cli, &line, 0, 3);
	if (status == CLI_DONE)
		status = add_options(cli, &line, 3);
	return finish(cli, &line, status, "");
}

static int run_bind(struct cli *cli)
{
	return bind_or_unbind(cli, "BIND");
}

static int run_unbind(struct cli *cli)
{
	return bind_or_unbind(cli, "UNBIND");
}

static int run_purge(struct cli *cli)
{
	struct buf line;

	buf_init(&line);
	buf_append_text(&line, "PURGE");
	int status = add_words(cli, &line, 0, 1);
	return finish(cli, &line, status, "purged");
}

static int run_kick(struct cli *cli)
{
	struct buf line;
	uint64_t count = cli_number(cli, "count");
	int status;

	buf_init(&line);
	buf_append_text(&line, "KICK");
	status = add_words(cli, &line, 0, 1);
	if (count > 0)
		buf_printf(&line, " %llu", (unsigned long long)count);
	return finish(cli, &line, status, "kicked");
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
	"are for the exchange's routing script. PATTERN - is the empty one."

const struct cli_verb cli_define_verbs[] = {
	{ .name = "declare",
	  .summary = "make an exchange or a queue, or check that it is as said",
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
	  .summary = "have an exchange give a queue what matches a pattern",
	  .usage = BIND_USAGE,
	  .details = BIND_DETAILS,
	  .words_min = 3,
	  .words_max = WORDS_MAX,
	  .run = run_bind },
	{ .name = "unbind",
	  .summary = "take a binding back",
	  .usage = BIND_USAGE,
	  .details = BIND_DETAILS,
	  .words_min = 3,
	  .words_max = WORDS_MAX,
	  .run = run_unbind },
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
