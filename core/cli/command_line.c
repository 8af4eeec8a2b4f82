#include "command_line.h"

#include <signal.h>
#include <stdlib.h>

#include "client/client_url.h"
#include "cli.h"

#define ENV_URL "TIDEMQ_URL"

static const struct command_option common_options[] = {
	{ COMMAND_TEXT("url", "URL", "$" ENV_URL " or " CLIENT_URL_DEFAULT,
		       "the broker") },
	{ COMMAND_FLAG("json", "print JSON, for programs") },
	{ COMMAND_FLAG("help", "print this page") },
	{ .name = NULL },
};

static const struct cli_verb *const tables[] = {
	cli_publish_verbs, cli_consume_verbs, cli_define_verbs, cli_show_verbs,
	cli_rules_verbs,   cli_explain_verbs, cli_bench_verbs,
};
#define TABLE_COUNT (sizeof(tables) / sizeof(tables[0]))

static const struct cli_verb *find_verb(const char *name)
{
	for (size_t i = 0; name && i < TABLE_COUNT; i++)
		for (const struct cli_verb *v = tables[i]; v->name; v++)
			if (strcmp(v->name, name) == 0)
				return v;
	return NULL;
}

bool command_line_has(const char *verb)
{
	return find_verb(verb) != NULL;
}

void command_line_list(FILE *out)
{
	for (size_t i = 0; i < TABLE_COUNT; i++)
		for (const struct cli_verb *v = tables[i]; v->name; v++)
			fprintf(out, "  %-8s %s\n", v->name, v->summary);
}

bool command_line_help(FILE *out, const char *verb)
{
	const struct cli_verb *v = find_verb(verb);
	struct buf options;

	if (!v)
		return false;
	fprintf(out, "usage: tidemq %s %s\n\n%s.\n", v->name, v->usage, v->summary);
	if (v->details)
		fprintf(out, "\n%s\n", v->details);
	buf_init(&options);
	command_option_help(v->options, &options);
	command_option_help(common_options, &options);
	fprintf(out, "\noptions, with their defaults in parentheses:\n%s",
		buf_cstr(&options));
	buf_deinit(&options);
	fputs("\nexit status: 0 done, 1 refused or failed, 2 wrong usage\n", out);
	return true;
}

static int check_words(const struct cli *cli)
{
	const struct cli_verb *v = cli->verb;

	if (cli->word_count >= v->words_min && cli->word_count <= v->words_max)
		return CLI_DONE;
	return cli_usage_error(cli, "%s; usage: tidemq %s %s",
			       cli->word_count < v->words_min
				       ? "an argument is missing"
				       : "there are too many arguments",
			       v->name, v->usage);
}

static const char *default_url(void)
{
	const char *url = getenv(ENV_URL);

	return url && *url ? url : CLIENT_URL_DEFAULT;
}

static int run_verb(struct cli *cli)
{
	const struct command_given *url = command_option_given(&cli->line, "url");

	if (cli_is_given(cli, "help")) {
		command_line_help(stdout, cli->verb->name);
		return CLI_DONE;
	}
	cli->url = url ? url->text : default_url();
	cli->json = cli_is_given(cli, "json");
	cli->words = cli->line.words;
	cli->word_count = cli->line.word_count;
	int status = check_words(cli);
	return status == CLI_DONE ? cli->verb->run(cli) : status;
}

int command_line_run(int argc, char **argv)
{
	struct cli cli = { .verb = find_verb(argc > 1 ? argv[1] : NULL) };
	struct error err;
	int status;

	if (!cli.verb) {
		fprintf(stderr, "tidemq: there is no verb '%s'; see tidemq help\n",
			argc > 1 ? argv[1] : "");
		return CLI_USAGE;
	}
	/* A reader that goes away is an error of a write, not the end of us. */
	signal(SIGPIPE, SIG_IGN);
	cli.line.options = cli.verb->options;
	cli.line.common = common_options;
	if (command_option_parse(&cli.line, argc - 1, argv + 1, &err) < 0)
		status = cli_usage_error(&cli, "%s", err.text);
	else
		status = run_verb(&cli);
	int flushed = cli_flush();
	tidemq_disconnect(cli.client);
	return status == CLI_DONE ? flushed : status;
}
