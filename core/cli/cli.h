/* cli.h: what the files of verbs share. */
#ifndef TIDE_CLI_CLI_H
#define TIDE_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/command_option.h"
#include "client/client_fail.h"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli;
struct cli_verb {
	const char *name;
	const char *summary;
	const char *usage;                    /* what follows the verb */
	const char *details;                  /* further lines of the help, or NULL */
	const struct command_option *options; /* see struct command_line */
	int words_min, words_max;             /* positional words */
	int (*run)(struct cli *cli);
};

/* Tables of verbs, each ends in a NULL name. */
extern const struct cli_verb cli_publish_verbs[];
extern const struct cli_verb cli_consume_verbs[];
extern const struct cli_verb cli_define_verbs[];
extern const struct cli_verb cli_show_verbs[];
extern const struct cli_verb cli_explain_verbs[];
extern const struct cli_verb cli_rules_verbs[];
extern const struct cli_verb cli_bench_verbs[];

struct cli {
	const struct cli_verb *verb;
	const char *url;
	bool json;
	struct command_line line;
	char **words; /* those of the line */
	int word_count;
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
/* What the client's last call says. */
int cli_client_failure(const struct cli *cli);

/* CLI_DONE with cli->client, or CLI_FAILED. */
int cli_connect(struct cli *cli, const struct tidemq_options *options);

/* Write out what was printed: CLI_FAILED when standard output is gone. */
int cli_flush(void);

/* Append a word of the command line to a request: a name, or with `=` in it an
 * option, whose value is percent-encoded. */
int cli_add_word(const struct cli *cli, struct buf *line, const char *word);
int cli_add_option(const struct cli *cli, struct buf *line, const char *word);
/* Send the request and release the line; connect first if need be. `status` is that of
 * writing the line: nothing is sent unless it is CLI_DONE. The reply is good until the
 * next call on the client. */
int cli_ask_take(struct cli *cli, struct buf *line, int status,
		 struct tidemq_reply *reply);

/* `rules simulate`, `rules log`, `rules top` and `rules show NAME` */
int cli_simulate(struct cli *cli);
int cli_rules_log(struct cli *cli, const struct tidemq_reply *reply);
int cli_rules_show_top(struct cli *cli);
int cli_rules_show(struct cli *cli, const char *name);

#endif
