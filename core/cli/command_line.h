/* command_line.h: the verbs of the command line that have a struct cli_verb.
 *
 * Exit status: 0 done, 1 refused or failed, 2 wrong usage; the last two with one line on
 * standard error. */
#ifndef TIDE_CLI_COMMAND_LINE_H
#define TIDE_CLI_COMMAND_LINE_H

#include "cli.h"

/* The verb of this name in any of the tables, which a NULL ends; or NULL. */
const struct cli_verb *command_line_find(const struct cli_verb *const *tables,
					 const char *name);

/* Run the verb argv[0] with what follows it; returns the exit status. */
int command_line_run(const struct cli_verb *verb, int argc, char **argv);

/* One line for each verb: two spaces, the name, what it does. */
void command_line_list(const struct cli_verb *const *tables, FILE *out);

/* Print the page of one verb. */
void command_line_help(const struct cli_verb *verb);

#endif
