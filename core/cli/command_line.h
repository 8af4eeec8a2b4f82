/* command_line.h: the command-line verbs that are clients of a running broker.
 *
 * Exit status: 0 done, 1 refused or failed, 2 wrong usage; the last two with
 * one line on standard error. */
#ifndef TIDE_CLI_COMMAND_LINE_H
#define TIDE_CLI_COMMAND_LINE_H

#include <stdbool.h>
#include <stdio.h>

/* Is there such a verb? */
bool command_line_has(const char *verb);

/* Run the verb argv[1] with what follows it; returns the exit status. */
int command_line_run(int argc, char **argv);

/* One line for each verb: two spaces, the name, what it does. */
void command_line_list(FILE *out);

/* The page of one verb; false when there is no such verb. */
bool command_line_help(FILE *out, const char *verb);

#endif
