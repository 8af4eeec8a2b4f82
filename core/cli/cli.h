/* cli.h: the command line, and what its verbs share.
 *
 * Exit status: 0 done, 1 refused or failed, 2 wrong usage; the last two with one line on
 * standard error.
 *
 * A verb appends words to cli->request and sends it with cli_ask or cli_table_ask. The
 * first failure stays in cli->status. After a failure nothing more is appended or sent.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/option.h"
#include "client/encode.h"

#define CLI_MATCH_HELP                                                           \
	"WHAT is a text of payload or header values, key:PATTERN, h:NAME,\n"     \
	"h:NAME=VALUE or h:NAME~GLOB, in which a * is any text, or\n"            \
	"lua:EXPRESSION over msg. text:TEXT is a text that begins like one of\n" \
	"these."

#define CLI_WIDE_HELP "all columns, also those for which the terminal is too narrow"

#define CLI_POSITION_HELP                                                            \
	"POSITION is first, last, last-100 (so many before it), an offset, a time\n" \
	"(2026-11-23T10:00:00Z, a date, @UNIX-MS) or a duration: 90m is so long ago."

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli;
struct cli_verb {
	const char *name;
	const char *summary;
	const char *usage;    /* what follows the verb */
	const char *details;  /* further lines of the help, or NULL */
	const char *examples; /* lines that begin with two blanks and end, or NULL */
	const struct option_row *options; /* see struct command_line */
	int words_min, words_max;         /* positional words */
	bool is_local;                    /* needs no broker */
	int (*run)(struct cli *cli);
};

/* Tables of verbs, each ends in a NULL name. */
extern const struct cli_verb cli_publish_verbs[];
extern const struct cli_verb cli_consume_verbs[];
extern const struct cli_verb cli_show_verbs[];
extern const struct cli_verb cli_explain_verbs[];
extern const struct cli_verb cli_bench_verbs[];
extern const struct cli_verb cli_definition_verbs[];
extern const struct cli_verb cli_lock_verbs[];
extern const struct cli_verb cli_top_verbs[];
extern const struct cli_verb cli_trace_verbs[];

struct cli {
	const struct cli_verb *verb;
	const char *url;
	char *hidden_url; /* the --url with a password, which the command line lacks now
			   */
	bool json;
	struct command_line line;
	char **words; /* those of the line */
	int word_count;
	struct buf request;
	int status;
	struct tidemq_client *client; /* NULL until cli_connect */
};

/* Was the option given? */
bool cli_is_given(const struct cli *cli, const char *name);
/* The text that was given last, or else the default; NULL when there is none. */
const char *cli_get(const struct cli *cli, const char *name);
/* The same as a number (a duration in milliseconds); 0 when there is none. */
uint64_t cli_number(const struct cli *cli, const char *name);

/* Say what is wrong, in one line; they return CLI_USAGE and CLI_FAILED. */
int cli_usage_error(const struct cli *cli, const char *format, ...) TIDE_PRINTF(2, 3);
int cli_failure(const char *format, ...) TIDE_PRINTF(1, 2);
/* Print the error of the client's last call. */
int cli_client_failure(const struct cli *cli);

/* A verb that lasts may have it; cli_connect looks at it. */
#define CLI_OPTION_RECONNECT                                                           \
	{                                                                              \
		COMMAND_FLAG("reconnect", "connect again when the connection is "      \
					  "lost, and go on; say so on standard error") \
	}

/* Is what an ack or a nack says no failure, since it came too late? The message comes
 * again, or is another consumer's. */
bool cli_is_late(const struct cli *cli, int status);

/* From now on SIGINT and SIGTERM are remembered, so that a verb can leave in order with
 * the messages that it holds; the second one ends the process. cli_run ends it by the
 * signal, after the client has said QUIT. False: they end it at once, as before. */
void cli_catch_signals(bool is_caught);
/* A signal has been caught. */
bool cli_is_ending(void);

/* CLI_DONE with cli->client, or CLI_FAILED. */
int cli_connect(struct cli *cli, const struct tidemq_options *options);

/* How many cells the store of the broker has that cli_connect has found, unless the URL
 * names one: 1 then, as for a store that is not split. */
unsigned cli_cells(const struct cli *cli);
/* Connect to the owner of the cell instead. */
int cli_connect_cell(struct cli *cli, unsigned cell);

/* Send a request about a vhost itself. Which cell has it the brokers know: their owners
 * are asked one after the other. Gives the status of the client. */
int cli_ask_vhost(struct cli *cli, const char *request);

/* Around what waits for the broker: on a terminal, say so after two seconds, and again
 * every ten. */
void cli_begin_wait(void);
void cli_end_wait(void);

/* Write out what was printed: CLI_FAILED when standard output is gone. */
int cli_flush(void);

/* Append a word of the command line to the request: a name, or with `=` in it an
 * option, whose value is percent-encoded. */
void cli_add_word(struct cli *cli, const char *word);
void cli_add_option(struct cli *cli, const char *word);
/* Append an option of the protocol, or a flag if the value is NULL. */
void cli_add_value(struct cli *cli, struct slice name, const char *value);

/* Connect and send the request; return cli->status. On CLI_DONE the reply is good until
 * the next call on the client. */
int cli_ask(struct cli *cli, struct tidemq_reply *reply);

/* The verb of this name in any of the tables, which a NULL ends; or NULL. */
const struct cli_verb *cli_find_verb(const struct cli_verb *const *tables,
				     const char *name);

/* Run the verb argv[0] with what follows it; returns the exit status. */
int cli_run(const struct cli_verb *verb, int argc, char **argv);

/* One line for each verb: two spaces, the name, what it does. */
void cli_list_verbs(const struct cli_verb *const *tables, FILE *out);

/* Print the page of one verb. */
void cli_help(const struct cli_verb *verb);
