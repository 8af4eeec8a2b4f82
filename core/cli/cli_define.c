/* cli_define.c: declare, delete, bind, unbind, purge, redrive, kick, remove, pause,
 * resume: verbs whose words are the protocol's, and whose reply is OK. */
#include <inttypes.h>

#include "cli.h"

#define WORDS_MAX 80

/* The verb, names, then options. */
static void add_words(struct cli *cli, int name_count)
{
	buf_append_text(&cli->request, cli->verb->name);
	for (int i = 0; i < name_count; i++)
		cli_add_word(cli, cli->words[i]);
	for (int i = name_count; i < cli->word_count; i++)
		cli_add_option(cli, cli->words[i]);
}

/* "[<name>] [warning <text>]": the name that the broker chose for a queue, and why it may
 * not be what was meant. */
static int finish_declare(struct cli *cli)
{
	struct tidemq_reply reply;
	struct slice rest, name = SLICE("");

	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	rest = slice_from(reply.text);
	if (rest.len > 0 && !slice_has_prefix(rest, "warning "))
		name = slice_cut(&rest, ' ');
	if (cli->json && name.len > 0)
		printf("{\"ok\":true,\"name\":\"%" SLICE_FMT "\"}\n", SLICE_ARG(name));
	else if (cli->json)
		puts("{\"ok\":true}");
	else if (name.len > 0)
		printf("%" SLICE_FMT "\n", SLICE_ARG(name));
	if (rest.len > 0)
		fprintf(stderr, "tidemq declare: warning: %" SLICE_FMT "\n",
			SLICE_ARG(slice_skip(rest, strlen("warning "))));
	return CLI_DONE;
}

/* What happened to the messages that a reply counts. */
static const char *past_tense(const struct cli *cli)
{
	static const char *const verbs[][2] = { { "purge", "purged" },
						{ "remove", "removed" },
						{ "kick", "kicked" } };

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(cli->verb->name, verbs[i][0]) == 0)
			return verbs[i][1];
	return "counted";
}

static int finish(struct cli *cli)
{
	struct tidemq_reply reply;

	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	if (cli->json && reply.len > 0)
		printf("{\"ok\":true,\"count\":%s}\n", reply.text);
	else if (cli->json)
		puts("{\"ok\":true}");
	else if (reply.len > 0)
		printf("%s %s message%s\n", past_tense(cli), reply.text,
		       strcmp(reply.text, "1") == 0 ? "" : "s");
	return CLI_DONE;
}

/* bind, unbind, purge, remove */
static int run_plain(struct cli *cli)
{
	add_words(cli, cli->verb->words_min);
	return finish(cli);
}

static int run_remove(struct cli *cli)
{
	add_words(cli, cli->word_count);
	return finish(cli);
}

/* declare, delete */
static int run_definition(struct cli *cli)
{
	static const char *const flags[] = { "if-empty", "if-unused" };
	bool is_declare = strcmp(cli->verb->name, "declare") == 0;
	bool is_exchange = strcmp(cli->words[0], "exchange") == 0;

	if (!is_exchange && strcmp(cli->words[0], "queue") != 0 &&
	    strcmp(cli->words[0], "topic") != 0)
		return cli_usage_error(
			cli, "expected 'exchange', 'queue' or 'topic', not '%s'",
			cli->words[0]);
	if (is_declare && is_exchange && cli->word_count < 3)
		return cli_usage_error(cli, "the type of the exchange is missing");
	add_words(cli, is_declare && is_exchange ? 3 : 2);
	for (size_t i = 0; i < 2; i++)
		if (cli_is_given(cli, flags[i]))
			cli_add_option(cli, flags[i]);
	return is_declare ? finish_declare(cli) : finish(cli);
}

static int run_kick(struct cli *cli)
{
	uint64_t count = cli_number(cli, "count");

	add_words(cli, 1);
	if (count > 0)
		buf_printf(&cli->request, " %" PRIu64, count);
	if (cli_is_given(cli, "id"))
		cli_add_value(cli, SLICE("id"), cli_get(cli, "id"));
	return finish(cli);
}

/* pause, resume */
static int run_pause(struct cli *cli)
{
	add_words(cli, cli->word_count);
	if (cli_is_given(cli, "for"))
		cli_add_value(cli, SLICE("for"), cli_get(cli, "for"));
	return finish(cli);
}

/* "<moved> <left>" */
static int finish_redrive(struct cli *cli)
{
	struct tidemq_reply reply;
	unsigned long long moved, left;

	if (cli_ask(cli, &reply) != CLI_DONE)
		return cli->status;
	if (sscanf(reply.text, "%llu %llu", &moved, &left) != 2)
		return cli_failure("cannot read the broker's answer '%s'", reply.text);
	printf(cli->json ? "{\"ok\":true,\"moved\":%llu,\"left\":%llu}\n"
			 : "sent back %llu, left %llu\n",
	       moved, left);
	return CLI_DONE;
}

static int run_redrive(struct cli *cli)
{
	uint64_t count = cli_number(cli, "count");

	add_words(cli, 1);
	if (count > 0)
		buf_printf(&cli->request, " %" PRIu64, count);
	if (cli_is_given(cli, "match"))
		cli_add_value(cli, SLICE("match"), cli_get(cli, "match"));
	if (cli_is_given(cli, "to"))
		cli_add_value(cli, SLICE("to"), cli_get(cli, "to"));
	return finish_redrive(cli);
}

static const struct command_option redrive_options[] = {
	{ COMMAND_NUMBER("count", "all", "how many at most", 1, UINT32_MAX) },
	{ COMMAND_TEXT("match", "WHAT", NULL, "only those that match, see above") },
	{ COMMAND_TEXT("to", "EXCHANGE/KEY", "where they came from", "where they go") },
	{ .name = NULL },
};

static const struct command_option delete_options[] = {
	{ COMMAND_FLAG("if-empty", "only if the queue holds no message") },
	{ COMMAND_FLAG("if-unused", "only without consumers, or bindings") },
	{ .name = NULL },
};

static const struct command_option kick_options[] = {
	{ COMMAND_NUMBER("count", "all", "how many at most", 1, UINT32_MAX) },
	{ COMMAND_TEXT("id", "ID", NULL, "only this message, delayed or buried") },
	{ .name = NULL },
};

static const struct command_option pause_options[] = {
	{ COMMAND_DURATION("for", "until resumed", "for how long", 1, 0) },
	{ .name = NULL },
};

#define BIND_USAGE "[options] QUEUE EXCHANGE PATTERN [NAME=VALUE...]"
#define BIND_DETAILS                                                              \
	"With dest=exchange QUEUE is the name of an exchange. Other NAME=VALUE\n" \
	"are for the exchange's routing script. PATTERN - is the empty pattern."

const struct cli_verb cli_define_verbs[] = {
	{ .name = "declare",
	  .summary = "declare an exchange, a queue or a topic",
	  .usage = "[options] exchange NAME TYPE [NAME=VALUE...] | queue|topic NAME "
		   "[NAME=VALUE...]",
	  .details = "NAME=VALUE are the options of DECLARE in docs/protocol.md, for "
		     "example\n"
		     "tidemq declare queue jobs retry=exponential retry.base=500ms\n"
		     "The broker chooses the name of 'queue -', which is printed.",
	  .words_min = 2,
	  .words_max = WORDS_MAX,
	  .run = run_definition },
	{ .name = "delete",
	  .summary = "delete an exchange, a queue or a topic",
	  .usage = "[options] exchange|queue|topic NAME",
	  .options = delete_options,
	  .words_min = 2,
	  .words_max = 2,
	  .run = run_definition },
	{ .name = "bind",
	  .summary = "bind a queue to an exchange",
	  .usage = BIND_USAGE,
	  .details = BIND_DETAILS,
	  .words_min = 3,
	  .words_max = WORDS_MAX,
	  .run = run_plain },
	{ .name = "unbind",
	  .summary = "remove a binding",
	  .usage = BIND_USAGE,
	  .details = BIND_DETAILS,
	  .words_min = 3,
	  .words_max = WORDS_MAX,
	  .run = run_plain },
	{ .name = "remove",
	  .summary = "remove messages of a queue by their ids",
	  .usage = "[options] QUEUE ID...",
	  .details = "Whatever their state: a consumer that holds one has lost it.",
	  .words_min = 2,
	  .words_max = WORDS_MAX,
	  .run = run_remove },
	{ .name = "purge",
	  .summary = "remove the messages of a queue that no consumer holds",
	  .usage = "[options] QUEUE",
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_plain },
	{ .name = "redrive",
	  .summary = "send dead letters back where they came from",
	  .usage = "[options] QUEUE",
	  .details = CLI_MATCH_HELP,
	  .options = redrive_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_redrive },
	{ .name = "kick",
	  .summary = "make buried messages of a queue ready again",
	  .usage = "[options] QUEUE",
	  .options = kick_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_kick },
	{ .name = "pause",
	  .summary = "have a queue refuse publishes, hold back deliveries, or both",
	  .usage = "[options] QUEUE in|out|both",
	  .options = pause_options,
	  .words_min = 2,
	  .words_max = 2,
	  .run = run_pause },
	{ .name = "resume",
	  .summary = "end a pause",
	  .usage = "[options] QUEUE [in|out|both]",
	  .words_min = 1,
	  .words_max = 2,
	  .run = run_pause },
	{ .name = NULL },
};
