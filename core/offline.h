/* offline.h: the verbs that work on a rules directory without a broker. */
#pragma once

#include "cli/cli.h"

/* Ends in a NULL name. Exit status: 0 no problem, 1 problems in the rules, 2 wrong
 * usage. */
extern const struct cli_verb offline_verbs[];

/* The words of `tidemq rules` that need no broker, as verbs: "rules new". NULL for other
 * words. */
const struct cli_verb *offline_rules_verb(const char *word);

/* `tidemq trial`, which the broker runs and no person: rules/engine/survey.h. */
int offline_trial(int argc, char **argv);
