/* cli_define.c: declare, delete, bind, unbind, purge, redrive, kick, remove, pause,
 * resume, seek: verbs whose words are the protocol's, and whose reply is OK. */
#include <inttypes.h>

#include "base/mem.h"
#include "cli.h"
#include "cli_url.h"

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

static int run_purge(struct cli *cli)
{
	add_words(cli, 1);
	if (cli_is_given(cli, "before"))
		cli_add_value(cli, SLICE("before"), cli_get(cli, "before"));
	if (cli_is_given(cli, "partition"))
		cli_add_value(cli, SLICE("partition"), cli_get(cli, "partition"));
	return finish(cli);
}

static int run_seek(struct cli *cli)
{
	add_words(cli, 3);
	if (cli_is_given(cli, "partition"))
		cli_add_value(cli, SLICE("partition"), cli_get(cli, "partition"));
	return finish(cli);
}

/* bind, unbind */
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

/* The URL may be that of the vhost which is still to be made. */
static int finish_vhost(struct cli *cli)
{
	char *url;

	if (cli->word_count > 2)
		return cli_usage_error(cli, "a vhost has a name and nothing else");
	add_words(cli, 2);
	url = cli_url_with(cli->url, "/");
	cli->url = url;
	finish(cli);
	mem_free(url);
	return cli->status;
}

static int run_declare(struct cli *cli)
{
	bool is_exchange = strcmp(cli->words[0], "exchange") == 0;

	if (strcmp(cli->words[0], "vhost") == 0)
		return finish_vhost(cli);
	if (!is_exchange && strcmp(cli->words[0], "queue") != 0 &&
	    strcmp(cli->words[0], "topic") != 0)
		return cli_usage_error(
			cli, "expected 'exchange', 'queue', 'topic' or 'vhost', not '%s'",
			cli->words[0]);
	if (is_exchange && cli->word_count < 3)
		return cli_usage_error(cli, "the type of the exchange is missing");
	add_words(cli, is_exchange ? 3 : 2);
	return finish_declare(cli);
}

static int run_delete(struct cli *cli)
{
	static const char *const kinds[] = { "exchange", "queue", "topic", "group" };
	static const char *const flags[] = { "if-empty", "if-unused" };
	bool is_group = strcmp(cli->words[0], "group") == 0, is_known = false;

	if (strcmp(cli->words[0], "vhost") == 0)
		return finish_vhost(cli);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		is_known = is_known || strcmp(cli->words[0], kinds[i]) == 0;
	if (!is_known)
		return cli_usage_error(
			cli,
			"expected 'exchange', 'queue', 'topic', 'vhost' or 'group', not "
			"'%s'",
			cli->words[0]);
	if (is_group != (cli->word_count == 3))
		return cli_usage_error(cli, is_group ? "the name of the group is missing"
						     : "there are too many arguments");
	add_words(cli, cli->word_count);
	for (size_t i = 0; i < 2; i++)
		if (cli_is_given(cli, flags[i]))
			cli_add_option(cli, flags[i]);
	return finish(cli);
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
	if (cli_is_given(cli, "routed"))
		buf_append_text(&cli->request, " routed");
	return finish_redrive(cli);
}

static const struct option_row purge_options[] = {
	{ COMMAND_TEXT("before", "POSITION", NULL,
		       "of a topic: only what lies before it, see above") },
	{ COMMAND_NUMBER("partition", "all", "of a topic: of this one alone", 0, 65535) },
	{ .name = NULL },
};

static const struct option_row seek_options[] = {
	{ COMMAND_NUMBER("partition", "all", "of this one alone", 0, 65535) },
	{ .name = NULL },
};

static const struct option_row redrive_options[] = {
	{ COMMAND_NUMBER("count", "all", "how many at most", 1, UINT32_MAX) },
	{ COMMAND_TEXT("match", "WHAT", NULL, "only those that match, see above") },
	{ COMMAND_TEXT("to", "EXCHANGE/KEY", "where they died", "where they go") },
	{ COMMAND_FLAG("routed",
		       "publish them once more by the exchange they came from") },
	{ .name = NULL },
};

static const struct option_row delete_options[] = {
	{ COMMAND_FLAG("if-empty", "only if the queue holds no message") },
	{ COMMAND_FLAG("if-unused", "only without consumers; of an exchange, without "
				    "bindings") },
	{ .name = NULL },
};

static const struct option_row kick_options[] = {
	{ COMMAND_NUMBER("count", "all", "how many at most", 1, UINT32_MAX) },
	{ COMMAND_TEXT("id", "ID", NULL, "only this message, delayed or buried") },
	{ .name = NULL },
};

static const struct option_row pause_options[] = {
	{ COMMAND_DURATION("for", "until resumed", "for how long", 1, 0) },
	{ .name = NULL },
};

#define BIND_USAGE "[options] QUEUE|TOPIC EXCHANGE PATTERN [NAME=VALUE...]"
#define BIND_DETAILS                                                              \
	"With dest=exchange QUEUE is the name of an exchange. Other NAME=VALUE\n" \
	"are for the exchange's routing script. PATTERN - is the empty pattern."

const struct cli_verb cli_define_verbs[] = {
	{ .name = "declare",
	  .summary = "declare an exchange, a queue, a topic or a vhost",
	  .usage = "[options] exchange NAME TYPE [NAME=VALUE...] | queue|topic NAME "
		   "[NAME=VALUE...] | vhost NAME",
	  .details =
		  "NAME=VALUE are the options of DECLARE in docs/protocol.md.\n"
		  "The broker chooses the name of 'queue -', which is printed.\n"
		  "With update=1 what exists gets these options, and keeps the others.",
	  .examples = "  tidemq declare exchange orders topic\n"
		      "  tidemq declare queue jobs retry=exponential retry.base=500ms\n"
		      "  tidemq declare queue jobs retry.max=5 ttl= update=1\n"
		      "  tidemq declare topic events partitions=4\n"
		      "  tidemq declare vhost shop\n",
	  .words_min = 2,
	  .words_max = WORDS_MAX,
	  .run = run_declare },
	{ .name = "delete",
	  .summary = "delete an exchange, a queue, a topic, a vhost that is empty, or a "
		     "group of a topic",
	  .usage = "[options] exchange|queue|topic|vhost NAME | group TOPIC GROUP",
	  .examples = "  tidemq delete queue jobs --if-empty\n"
		      "  tidemq delete group events billing\n",
	  .options = delete_options,
	  .words_min = 2,
	  .words_max = 3,
	  .run = run_delete },
	{ .name = "bind",
	  .summary = "bind a queue or a topic to an exchange",
	  .usage = BIND_USAGE,
	  .details = BIND_DETAILS,
	  .examples = "  tidemq bind jobs orders 'orders.*.paid'\n",
	  .words_min = 3,
	  .words_max = WORDS_MAX,
	  .run = run_plain },
	{ .name = "unbind",
	  .summary = "remove a binding",
	  .usage = BIND_USAGE,
	  .details = BIND_DETAILS,
	  .examples = "  tidemq unbind jobs orders 'orders.*.paid'\n",
	  .words_min = 3,
	  .words_max = WORDS_MAX,
	  .run = run_plain },
	{ .name = "remove",
	  .summary = "remove messages of a queue by their ids",
	  .usage = "[options] QUEUE ID...",
	  .details = "Whatever their state: a consumer that holds one has lost it.",
	  .examples = "  tidemq remove jobs 687f6b0a11800000\n",
	  .words_min = 2,
	  .words_max = WORDS_MAX,
	  .run = run_remove },
	{ .name = "purge",
	  .summary = "remove the messages of a queue that no consumer holds, or those "
		     "of a topic",
	  .usage = "[options] QUEUE|TOPIC",
	  .details = CLI_POSITION_HELP,
	  .examples = "  tidemq purge jobs\n"
		      "  tidemq purge events --before 2026-11-23T10:00:00Z\n",
	  .options = purge_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_purge },
	{ .name = "seek",
	  .summary = "set where a group of a topic goes on",
	  .usage = "[options] TOPIC GROUP POSITION",
	  .details = CLI_POSITION_HELP,
	  .examples = "  tidemq seek events billing 90m\n"
		      "  tidemq seek events billing first\n",
	  .options = seek_options,
	  .words_min = 3,
	  .words_max = 3,
	  .run = run_seek },
	{ .name = "redrive",
	  .summary = "send dead letters back to the queues where they died",
	  .usage = "[options] QUEUE",
	  .details = CLI_MATCH_HELP,
	  .examples = "  tidemq redrive dead --count 100\n",
	  .options = redrive_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_redrive },
	{ .name = "kick",
	  .summary = "make buried messages of a queue ready again",
	  .usage = "[options] QUEUE",
	  .examples = "  tidemq kick jobs\n",
	  .options = kick_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_kick },
	{ .name = "pause",
	  .summary = "have a queue refuse publishes, hold back deliveries, or both",
	  .usage = "[options] QUEUE in|out|both",
	  .examples = "  tidemq pause jobs out --for 10m\n",
	  .options = pause_options,
	  .words_min = 2,
	  .words_max = 2,
	  .run = run_pause },
	{ .name = "resume",
	  .summary = "end a pause",
	  .usage = "[options] QUEUE [in|out|both]",
	  .examples = "  tidemq resume jobs\n",
	  .words_min = 1,
	  .words_max = 2,
	  .run = run_pause },
	{ .name = NULL },
};
