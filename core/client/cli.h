/* cli.h: the command-line verbs that are clients of a running broker.
 *
 * Exit status: 0 done, 1 refused or failed, 2 wrong usage; the last two with
 * one line on standard error. */
#ifndef TIDE_CLIENT_CLI_H
#define TIDE_CLIENT_CLI_H

#include <stdbool.h>
#include <stdio.h>

/* Is there such a verb? */
bool cli_has(const char *verb);

/* Run the verb argv[1] with what follows it; returns the exit status. */
int cli_main(int argc, char **argv);

/* One line for each verb: two spaces, the name, what it does. */
void cli_help_list(FILE *out);

/* The page of one verb; false when there is no such verb. */
bool cli_help(FILE *out, const char *verb);

#endif
