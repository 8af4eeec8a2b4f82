#include "cli.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/percent.h"
#include "cli_url.h"

#define ENV_URL "TIDEMQ_URL"

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

/* At a shell nobody types HELLO. */
static int report(const struct tidemq_error *err)
{
	if (strncmp(err->text, "log in first", 12) == 0)
		return cli_failure("%s: log in first: " ENV_URL
				   "=tide://NAME:PASSWORD@HOST:PORT/",
				   err->word);
	return cli_failure("%s%s%s", err->word, err->word[0] ? ": " : "", err->text);
}

int cli_client_failure(const struct cli *cli)
{
	return report(tidemq_last_error(cli->client));
}

static void on_alarm(int signal)
{
	static const char text[] = "tidemq: still waiting for the broker's answer\n";
	ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)ignored;
}

void cli_begin_wait(void)
{
	const struct itimerval when = { .it_value = { 2, 0 }, .it_interval = { 10, 0 } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };

	if (!isatty(STDERR_FILENO))
		return;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &when, NULL);
}

void cli_end_wait(void)
{
	const struct itimerval never = { 0 };

	setitimer(ITIMER_REAL, &never, NULL);
}

int cli_flush(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return CLI_DONE;
	/* A reader that closed the pipe has seen enough, and needs no message. */
	if (errno != EPIPE)
		cli_failure("cannot write to standard output: %s", strerror(errno));
	return CLI_FAILED;
}

bool cli_is_given(const struct cli *cli, const char *name)
{
	return option_given(&cli->line, name) != NULL;
}

const char *cli_get(const struct cli *cli, const char *name)
{
	const struct command_given *given = option_given(&cli->line, name);

	return given ? given->text : option_find(cli->verb->options, name)->fallback;
}

uint64_t cli_number(const struct cli *cli, const char *name)
{
	const struct command_given *given = option_given(&cli->line, name);
	const struct option_row *o = option_find(cli->verb->options, name);
	uint64_t value = 0;

	if (given)
		return given->value;
	if (o->fallback && option_value(o, o->fallback, &value, NULL) < 0)
		value = 0;
	return value;
}

static void on_state(struct tidemq_client *c, enum tidemq_state state,
		     const struct tidemq_error *why, void *ctx)
{
	if (state == TIDEMQ_LOST)
		fprintf(stderr, "tidemq: %s; connecting again\n", why->text);
	else if (state == TIDEMQ_RESTORED)
		fprintf(stderr, "tidemq: connected again%s%s\n",
			why->text[0] ? "; not restored: " : "", why->text);
}

bool cli_is_late(const struct cli *cli, int status)
{
	return status == TIDEMQ_ELEASELOST ||
	       (status == TIDEMQ_ELOST && cli_is_given(cli, "reconnect"));
}

static volatile sig_atomic_t caught_signal;

static void on_end_signal(int number)
{
	caught_signal = number;
}

void cli_catch_signals(bool is_caught)
{
	static const int numbers[] = { SIGINT, SIGTERM };
	struct sigaction old, next = { .sa_handler = is_caught ? on_end_signal : SIG_DFL,
				       .sa_flags = SA_RESTART | (int)SA_RESETHAND };

	/* One that is ignored, as SIGINT behind a shell's `&`, stays ignored. */
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &next, NULL);
}

bool cli_is_ending(void)
{
	return caught_signal != 0;
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
	if (cli_is_given(cli, "reconnect")) {
		named.reconnect = true;
		named.on_state = on_state;
		/* The broker may be away for long. */
		named.request_timeout_ms = -1;
	}
	cli_begin_wait();
	cli->client = tidemq_connect(cli->url, &named, &err);
	cli_end_wait();
	return cli->client ? CLI_DONE : report(&err);
}

unsigned cli_cells(const struct cli *cli)
{
	const char *info = tidemq_server_info(cli->client);
	json_t *document = info ? json_loads(info, 0, NULL) : NULL;
	json_int_t cells = json_integer_value(json_object_get(document, "cells"));

	json_decref(document);
	if (strstr(cli->url, "?cell=") || strstr(cli->url, "&cell="))
		return 1;
	return cells > 1 ? (unsigned)cells : 1;
}

int cli_connect_cell(struct cli *cli, unsigned cell)
{
	char *url = cli_url_of_cell(cli->url, cell);

	tidemq_disconnect(cli->client);
	mem_free(cli->hidden_url);
	cli->url = cli->hidden_url = url;
	return cli->status = cli_connect(cli, NULL);
}

int cli_ask_vhost(struct cli *cli, const char *request)
{
	unsigned cells = cli_cells(cli), cell = 0;
	struct tidemq_reply reply;
	int rc;

	do {
		rc = tidemq_request(cli->client, request, NULL, 0, &reply);
		if (rc == TIDEMQ_OK || cells == 1 || cell == cells ||
		    strcmp(reply.word, "mismatch") != 0)
			return rc;
	} while (cli_connect_cell(cli, cell++) == CLI_DONE);
	return rc;
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

void cli_add_value(struct cli *cli, struct slice name, const char *value)
{
	buf_append_char(&cli->request, ' ');
	buf_append_slice(&cli->request, name);
	if (!value)
		return;
	buf_append_char(&cli->request, '=');
	percent_encode(&cli->request, slice_from(value));
}

void cli_add_option(struct cli *cli, const char *word)
{
	struct slice rest = slice_from(word), name = slice_cut(&rest, '=');

	if (cli->status != CLI_DONE)
		return;
	if (slice_is_name(name))
		cli_add_value(cli, name, strchr(word, '=') ? rest.data : NULL);
	else
		cli->status = cli_usage_error(cli, "'%.60s' is not an option: name=value",
					      word);
}

int cli_ask(struct cli *cli, struct tidemq_reply *reply)
{
	if (cli->status == CLI_DONE && !cli->client)
		cli->status = cli_connect(cli, NULL);
	if (cli->status != CLI_DONE)
		return cli->status;
	cli_begin_wait();
	if (tidemq_request(cli->client, buf_cstr(&cli->request), NULL, 0, reply) !=
	    TIDEMQ_OK)
		cli->status = cli_client_failure(cli);
	cli_end_wait();
	return cli->status;
}

static const struct option_row client_options[] = {
	{ COMMAND_TEXT("url", "URL", "$" ENV_URL " or " CLIENT_URL_DEFAULT,
		       "the broker") },
	{ COMMAND_TEXT(
		"tls-ca", "FILE", "$TIDEMQ_TLS_CA",
		"with tides://: whom to trust; else those whom the system trusts") },
	{ COMMAND_TEXT("tls-cert", "FILE", "$TIDEMQ_TLS_CERT",
		       "with tides://: the certificate for a broker that asks for one") },
	{ COMMAND_TEXT("tls-key", "FILE", "$TIDEMQ_TLS_KEY", "its key") },
	{ COMMAND_FLAG("json", "print JSON, for programs") },
	{ COMMAND_FLAG("help", "print this page") },
	{ .name = NULL },
};

static const struct option_row local_options[] = {
	{ COMMAND_FLAG("help", "print this page") },
	{ .name = NULL },
};

static const struct option_row *common_options(const struct cli_verb *verb)
{
	return verb->is_local ? local_options : client_options;
}

const struct cli_verb *cli_find_verb(const struct cli_verb *const *tables,
				     const char *name)
{
	for (; *tables; tables++)
		for (const struct cli_verb *v = *tables; v->name; v++)
			if (strcmp(v->name, name) == 0)
				return v;
	return NULL;
}

void cli_list_verbs(const struct cli_verb *const *tables, FILE *out)
{
	for (; *tables; tables++)
		for (const struct cli_verb *v = *tables; v->name; v++)
			fprintf(out, "  %-11s %s\n", v->name, v->summary);
}

void cli_help(const struct cli_verb *v)
{
	struct buf options = { 0 };

	printf("usage: tidemq %s %s\n\n%s.\n", v->name, v->usage, v->summary);
	if (v->details)
		printf("\n%s\n", v->details);
	option_help(v->options, &options);
	option_help(common_options(v), &options);
	printf("\noptions, with their defaults in parentheses:\n%s", buf_cstr(&options));
	buf_deinit(&options);
	if (v->examples)
		printf("\nexamples:\n%s", v->examples);
	printf("\nexit status: 0 %s, 2 wrong usage\n",
	       v->is_local ? "no problem, 1 problems" : "done, 1 refused or failed");
}

/* "tide://user:pass@host", or "?pass=" of a socket. */
static bool has_password(const char *url)
{
	const char *host = strstr(url, "://"), *at = strrchr(url, '@');
	const char *colon = host ? strchr(host + 3, ':') : NULL;

	return strstr(url, "pass=") || (colon && at && colon < at);
}

/* Every user of the machine can read the command line of a process. */
static void hide_password(struct cli *cli)
{
	const struct command_given *url = option_given(&cli->line, "url");
	char *text = url ? (char *)(uintptr_t)url->text : NULL;

	if (!text || !has_password(text))
		return;
	cli->url = cli->hidden_url = mem_strdup(text);
	memset(text, '*', strlen(text));
	fputs("tidemq: warning: the password of --url was on the command line, where "
	      "every user could read it: set " ENV_URL "\n",
	      stderr);
}

/* Clients that a verb makes find them in the environment. */
static void export_tls(const struct cli *cli)
{
	static const char *const options[][2] = { { "tls-ca", "TIDEMQ_TLS_CA" },
						  { "tls-cert", "TIDEMQ_TLS_CERT" },
						  { "tls-key", "TIDEMQ_TLS_KEY" } };

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const struct command_given *given =
			option_given(&cli->line, options[i][0]);

		if (given)
			setenv(options[i][1], given->text, 1);
	}
}

static int run_verb(struct cli *cli)
{
	const struct command_given *url = option_given(&cli->line, "url");
	const struct cli_verb *v = cli->verb;
	const char *of_environment = getenv(ENV_URL);

	if (cli_is_given(cli, "help")) {
		cli_help(v);
		return CLI_DONE;
	}
	cli->url = CLIENT_URL_DEFAULT;
	if (of_environment && *of_environment)
		cli->url = of_environment;
	if (url)
		cli->url = url->text;
	hide_password(cli);
	export_tls(cli);
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

int cli_run(const struct cli_verb *verb, int argc, char **argv)
{
	struct cli cli = { .verb = verb,
			   .line = { .options = verb->options,
				     .common = common_options(verb) } };
	struct error err;
	int status, flushed;

	/* A reader that goes away is an error of a write, not the end of the process. */
	if (!verb->is_local)
		signal(SIGPIPE, SIG_IGN);
	if (option_take_line(&cli.line, argc, argv, &err) < 0)
		status = cli_usage_error(&cli, "%s", err.text);
	else
		status = run_verb(&cli);
	flushed = cli_flush();
	buf_deinit(&cli.request);
	mem_free(cli.hidden_url);
	tidemq_disconnect(cli.client);
	if (cli_is_ending()) {
		cli_catch_signals(false);
		raise(caught_signal);
	}
	return status == CLI_DONE ? flushed : status;
}
