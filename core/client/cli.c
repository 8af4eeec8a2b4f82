#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/percent.h"
#include "cli_verb.h"
#include "encode.h"
#include "url.h"

#define ENV_URL "TIDEMQ_URL"

static const struct cli_option common_options[] = {
	{ "url", "URL", "the broker; default $" ENV_URL " or " URL_DEFAULT },
	{ "json", NULL, "print JSON, for programs" },
	{ "help", NULL, "print this page" },
	{ NULL, NULL, NULL },
};

static const struct cli_verb *const tables[] = {
	cli_verbs_publish, cli_verbs_consume, cli_verbs_define, cli_verbs_show,
	cli_verbs_rules,   cli_verbs_explain, cli_verbs_bench,
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

bool cli_has(const char *verb)
{
	return find_verb(verb) != NULL;
}

/* ---- help ---------------------------------------------------------------- */

void cli_help_list(FILE *out)
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

bool cli_help(FILE *out, const char *verb)
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

/* ---- messages ------------------------------------------------------------ */

int cli_usage_error(const struct cli *cli, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "tidemq %s: ", cli->verb->name);
	vfprintf(stderr, format, args);
	fprintf(stderr, "; see tidemq help %s\n", cli->verb->name);
	va_end(args);
	return CLI_USAGE;
}

int cli_failure(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("tidemq: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return CLI_FAILED;
}

static int report(const struct tidemq_error *err)
{
	if (err->word[0])
		return cli_failure("%s: %s", err->word, err->text);
	return cli_failure("%s", err->text);
}

int cli_client_failure(const struct cli *cli)
{
	return report(tidemq_last_error(cli->client));
}

int cli_flush(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return CLI_DONE;
	/* Who closed the pipe has seen enough, and needs no message. */
	if (errno != EPIPE)
		cli_failure("cannot write to standard output: %s", strerror(errno));
	return CLI_FAILED;
}

/* ---- options ------------------------------------------------------------- */

const char *cli_get(const struct cli *cli, const char *name)
{
	for (int i = cli->given_count - 1; i >= 0; i--)
		if (strcmp(cli->given[i].option->name, name) == 0)
			return cli->given[i].value;
	return NULL;
}

int cli_get_number(const struct cli *cli, const char *name, uint64_t min, uint64_t max,
		   uint64_t *value)
{
	const char *text = cli_get(cli, name);
	uint64_t n;
	if (!text)
		return CLI_DONE;
	if (!slice_to_uint(slice_from(text), max, &n) || n < min)
		return cli_usage_error(cli, "--%s must be %llu-%llu, not '%s'", name,
				       (unsigned long long)min, (unsigned long long)max,
				       text);
	*value = n;
	return CLI_DONE;
}

int cli_get_duration(const struct cli *cli, const char *name, int64_t *value_ms)
{
	const char *text = cli_get(cli, name);
	if (text && duration_parse(slice_from(text), value_ms) != TIDE_OK)
		return cli_usage_error(
			cli,
			"--%s must be a duration like 250ms, 30s, 5m, 2h or 1d,"
			" not '%s'",
			name, text);
	return CLI_DONE;
}

int cli_get_choice(const struct cli *cli, const char *name, const char *choices,
		   const char **value)
{
	const char *text = cli_get(cli, name);
	if (!text)
		return CLI_DONE;
	size_t len = strlen(text);
	for (const char *c = choices; c; c = strchr(c, '|')) {
		c += *c == '|';
		if (strncmp(c, text, len) == 0 && (c[len] == '|' || c[len] == 0) &&
		    len > 0) {
			*value = text;
			return CLI_DONE;
		}
	}
	return cli_usage_error(cli, "--%s must be one of %s, not '%s'", name, choices,
			       text);
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

/* ---- requests ------------------------------------------------------------ */

int cli_connect(struct cli *cli, const struct tidemq_options *options)
{
	struct tidemq_options named = { 0 };
	struct tidemq_error err;
	char name[32];
	if (options)
		named = *options;
	snprintf(name, sizeof(name), "tidemq-%s", cli->verb->name);
	named.name = name;
	cli->client = tidemq_connect(cli->url, &named, &err);
	return cli->client ? CLI_DONE : report(&err);
}

int cli_add_word(const struct cli *cli, struct buf *line, const char *word)
{
	struct tidemq_error err;
	if (buf_len(line) > 0)
		buf_append_char(line, ' ');
	if (word_encode(line, word, "argument", true, &err) == TIDEMQ_OK)
		return CLI_DONE;
	return cli_usage_error(cli, "'%.60s' is no name: 1-%d bytes without white space",
			       word, NAME_LEN_MAX);
}

int cli_add_option(const struct cli *cli, struct buf *line, const char *word)
{
	struct slice name = slice_from(word);
	const char *equals = strchr(word, '=');
	if (equals)
		name.len = (size_t)(equals - word);
	if (!slice_is_name(name))
		return cli_usage_error(cli, "'%.60s' is no option: name=value", word);
	buf_append_char(line, ' ');
	buf_append_slice(line, name);
	if (!equals)
		return CLI_DONE;
	buf_append_char(line, '=');
	percent_encode(line, slice_from(equals + 1));
	return CLI_DONE;
}

int cli_ask_take(struct cli *cli, struct buf *line, struct tidemq_reply *reply)
{
	int status = cli->client ? CLI_DONE : cli_connect(cli, NULL);
	if (status == CLI_DONE &&
	    tidemq_request(cli->client, buf_cstr(line), NULL, 0, reply) != TIDEMQ_OK)
		status = cli_client_failure(cli);
	buf_deinit(line);
	return status;
}

/* ---- the entry ----------------------------------------------------------- */

static const char *default_url(void)
{
	const char *url = getenv(ENV_URL);
	return url && *url ? url : URL_DEFAULT;
}

static int run_verb(struct cli *cli)
{
	if (cli_get(cli, "help")) {
		cli_help(stdout, cli->verb->name);
		return CLI_DONE;
	}
	cli->url = cli_get(cli, "url") ? cli_get(cli, "url") : default_url();
	cli->json = cli_get(cli, "json") != NULL;
	int status = check_words(cli);
	return status == CLI_DONE ? cli->verb->run(cli) : status;
}

int cli_main(int argc, char **argv)
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
