#include "command_line.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>

#include "client/client_url.h"
#include "cli.h"

#define ENV_URL "TIDEMQ_URL"

static const struct cli_option common_options[] = {
	{ "url", "URL", "the broker; default $" ENV_URL " or " CLIENT_URL_DEFAULT },
	{ "json", NULL, "print JSON, for programs" },
	{ "help", NULL, "print this page" },
	{ NULL, NULL, NULL },
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

static void print_options(FILE *out, const struct cli_option *options)
{
	for (const struct cli_option *o = options; o && o->name; o++) {
		char text[64];
		snprintf(text, sizeof(text), "--%s%s%s", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		fprintf(out, "  %-22s %s\n", text, o->help);
	}
}

bool command_line_help(FILE *out, const char *verb)
{
	const struct cli_verb *v = find_verb(verb);
	if (!v)
		return false;
	fprintf(out, "usage: tidemq %s %s\n\n%s.\n", v->name, v->usage, v->summary);
	if (v->details)
		fprintf(out, "\n%s\n", v->details);
	fputs("\noptions:\n", out);
	print_options(out, v->options);
	print_options(out, common_options);
	fputs("\nexit status: 0 done, 1 refused or failed, 2 wrong usage\n", out);
	return true;
}

/* getopt_long's table of a verb's options and the common ones. */
static const struct cli_option *known_option(const struct cli *cli, int i)
{
	int count = 0;
	while (cli->verb->options && cli->verb->options[count].name)
		count++;
	return i < count ? &cli->verb->options[i] : &common_options[i - count];
}

#define KNOWN_MAX 32

static int build_long_options(const struct cli *cli, struct option *out)
{
	int n = 0;
	for (; n < KNOWN_MAX - 1 && known_option(cli, n)->name; n++) {
		const struct cli_option *o = known_option(cli, n);
		out[n] = (struct option){ .name = o->name,
					  .has_arg = o->arg ? required_argument
							    : no_argument };
	}
	out[n] = (struct option){ 0 };
	return n;
}

static int wrong_option(const struct cli *cli, int c, const char *text)
{
	if (c == ':')
		return cli_usage_error(cli, "option '%s' needs a value", text);
	return cli_usage_error(cli, "there is no option '%s'", text);
}

static int parse_options(struct cli *cli, int argc, char **argv)
{
	struct option options[KNOWN_MAX];
	int c, which;
	build_long_options(cli, options);
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, ":h", options, &which)) != -1) {
		if (c == 'h') {
			cli->given[cli->given_count++] =
				(struct cli_given){ &common_options[2], "" };
			return CLI_DONE;
		}
		if (c != 0)
			return wrong_option(cli, c, argv[optind - 1]);
		if (cli->given_count == CLI_OPTIONS_MAX)
			return cli_usage_error(cli, "more than %d options",
					       CLI_OPTIONS_MAX);
		cli->given[cli->given_count++] =
			(struct cli_given){ known_option(cli, which),
					    optarg ? optarg : "" };
	}
	cli->words = argv + optind;
	cli->word_count = argc - optind;
	return CLI_DONE;
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
	if (cli_get(cli, "help")) {
		command_line_help(stdout, cli->verb->name);
		return CLI_DONE;
	}
	cli->url = cli_get(cli, "url") ? cli_get(cli, "url") : default_url();
	cli->json = cli_get(cli, "json") != NULL;
	int status = check_words(cli);
	return status == CLI_DONE ? cli->verb->run(cli) : status;
}

int command_line_run(int argc, char **argv)
{
	struct cli cli = { .verb = find_verb(argc > 1 ? argv[1] : NULL) };
	if (!cli.verb) {
		fprintf(stderr, "tidemq: there is no verb '%s'; see tidemq help\n",
			argc > 1 ? argv[1] : "");
		return CLI_USAGE;
	}
	/* A reader that goes away is an error of a write, not the end of us. */
	signal(SIGPIPE, SIG_IGN);
	int status = parse_options(&cli, argc - 1, argv + 1);
	if (status == CLI_DONE)
		status = run_verb(&cli);
	int flushed = cli_flush();
	tidemq_disconnect(cli.client);
	return status == CLI_DONE ? flushed : status;
}
