#include "cli.h"

#include <errno.h>
#include <stdarg.h>

#include "base/percent.h"
#include "client/encode.h"

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
	return cli_failure("%s%s%s", err->word, err->word[0] ? ": " : "", err->text);
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

bool cli_is_given(const struct cli *cli, const char *name)
{
	return command_option_given(&cli->line, name) != NULL;
}

const char *cli_get(const struct cli *cli, const char *name)
{
	const struct command_given *given = command_option_given(&cli->line, name);

	return given ? given->text
		     : command_option_find(cli->verb->options, name)->fallback;
}

uint64_t cli_number(const struct cli *cli, const char *name)
{
	const struct command_given *given = command_option_given(&cli->line, name);
	const struct command_option *o = command_option_find(cli->verb->options, name);
	uint64_t value = 0;

	if (given)
		return given->value;
	if (o->fallback && command_option_value(o, o->fallback, &value, NULL) < 0)
		value = 0;
	return value;
}

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

void cli_add_word(struct cli *cli, const char *word)
{
	struct tidemq_error err;

	if (cli->status != CLI_DONE)
		return;
	if (buf_len(&cli->request) > 0)
		buf_append_char(&cli->request, ' ');
	if (encode_word(&cli->request, word, "argument", true, &err) != TIDEMQ_OK)
		cli->status = cli_usage_error(
			cli, "'%.60s' is not a name: 1-%d bytes without white space",
			word, NAME_LEN_MAX);
}

static void add_option(struct cli *cli, struct slice name, const char *value)
{
	buf_append_char(&cli->request, ' ');
	buf_append_slice(&cli->request, name);
	if (!value)
		return;
	buf_append_char(&cli->request, '=');
	percent_encode(&cli->request, slice_from(value));
}

void cli_add_value(struct cli *cli, const char *name, const char *value)
{
	add_option(cli, slice_from(name), value);
}

void cli_add_option(struct cli *cli, const char *word)
{
	struct slice rest = slice_from(word), name = slice_cut(&rest, '=');

	if (cli->status != CLI_DONE)
		return;
	if (slice_is_name(name))
		add_option(cli, name, strchr(word, '=') ? rest.data : NULL);
	else
		cli->status = cli_usage_error(cli, "'%.60s' is not an option: name=value",
					      word);
}

int cli_ask(struct cli *cli, struct tidemq_reply *reply)
{
	if (cli->status == CLI_DONE && !cli->client)
		cli->status = cli_connect(cli, NULL);
	if (cli->status == CLI_DONE &&
	    tidemq_request(cli->client, buf_cstr(&cli->request), NULL, 0, reply) !=
		    TIDEMQ_OK)
		cli->status = cli_client_failure(cli);
	return cli->status;
}
