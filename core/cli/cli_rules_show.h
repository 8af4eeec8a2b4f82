/* cli_rules_show.h: rules top and rules show NAME: what scripts cost, and what they
 * take. */
#ifndef TIDE_CLI_CLI_RULES_SHOW_H
#define TIDE_CLI_CLI_RULES_SHOW_H

#include "cli.h"

int cli_rules_show_top(struct cli *cli);
int cli_rules_show(struct cli *cli);

#endif
