/* cli_check.h: rules held against the definitions of a running broker. */
#ifndef TIDE_CLIENT_CLI_CHECK_H
#define TIDE_CLIENT_CLI_CHECK_H

/* Print a line for each thing that does not fit, and give how many there are.
 * `status` is the document of engine_status of the rules in question. */
unsigned cli_check_definitions(const char *url, const char *status);

#endif
