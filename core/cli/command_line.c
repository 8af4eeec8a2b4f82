#include "command_line.h"

#include <signal.h>
#include <stdlib.h>

#include "client/client_url.h"

#define ENV_URL "TIDEMQ_URL"

static const struct command_option client_options[] = {
	{ COMMAND_TEXT("url", "URL", "$" ENV_URL " or " CLIENT_URL_DEFAULT,
		       "the broker") },
	{ COMMAND_FLAG("json", "print JSON, for programs") },
	{ COMMAND_FLAG("help", "print this page") },
	{ .name = NULL },
};

static const struct command_option local_options[] = {
	{ COMMAND_FLAG("help", "print this page") },
	{ .name = NULL },
};

static const struct command_option *common_options(const struct cli_verb *verb)
{
	return verb->is_local ? local_options : client_options;
}

const struct cli_verb *command_line_find(const struct cli_verb *const *tables,
					 const char *name)
{
	for (; *tables; tables++)
		for (const struct cli_verb *v = *tables; v->name; v++)
			if (strcmp(v->name, name) == 0)
				return v;
	return NULL;
}

void command_line_list(const struct cli_verb *const *tables, FILE *out)
{
	for (; *tables; tables++)
		for (const struct cli_verb *v = *tables; v->name; v++)
			fprintf(out, "  %-8s %s\n", v->name, v->summary);
}

void command_line_help(const struct cli_verb *v)
{
	struct buf options = { 0 };

	printf("usage: tidemq %s %s\n\n%s.\n", v->name, v->usage, v->summary);
	if (v->details)
		printf("\n%s\n", v->details);
	command_option_help(v->options, &options);
	command_option_help(common_options(v), &options);
	printf("\noptions, with their defaults in parentheses:\n%s", buf_cstr(&options));
	buf_deinit(&options);
	printf("\nexit status: 0 %s, 2 wrong usage\n",
	       v->is_local ? "no problem, 1 problems" : "done, 1 refused or failed");
}

static int run_verb(struct cli *cli)
{
	const struct command_given *url = command_option_given(&cli->line, "url");
	const struct cli_verb *v = cli->verb;
	const char *of_environment = getenv(ENV_URL);

	if (cli_is_given(cli, "help")) {
		command_line_help(v);
		return CLI_DONE;
	}
	cli->url = CLIENT_URL_DEFAULT;
	if (of_environment && *of_environment)
		cli->url = of_environment;
	if (url)
		cli->url = url->text;
	cli->json = cli_is_given(cli, "json");
	cli->words = cli->line.words;
	cli->word_count = cli->line.word_count;
	if (cli->word_count >= v->words_min && cli->word_count <= v->words_max)
		return v->run(cli);
	return cli_usage_error(cli, "%s; usage: tidemq %s %s",
			       cli->word_count < v->words_min
				       ? "an argument is missing"
				       : "there are too many arguments",
			       v->name, v->usage);
}

int command_line_run(const struct cli_verb *verb, int argc, char **argv)
{
	struct cli cli = { .verb = verb,
			   .line = { .options = verb->options,
				     .common = common_options(verb) } };
	struct error err;
	int status, flushed;

	/* A reader that goes away is an error of a write, not the end of the process. */
	if (!verb->is_local)
		signal(SIGPIPE, SIG_IGN);
	if (command_option_parse(&cli.line, argc, argv, &err) < 0)
		status = cli_usage_error(&cli, "%s", err.text);
	else
		status = run_verb(&cli);
	flushed = cli_flush();
	buf_deinit(&cli.request);
	tidemq_disconnect(cli.client);
	return status == CLI_DONE ? flushed : status;
}
