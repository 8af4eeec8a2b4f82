/* offline.h: the verbs that work on a rules directory without a broker. */
#ifndef TIDE_OFFLINE_H
#define TIDE_OFFLINE_H

#include <stdbool.h>
#include <stdio.h>

bool offline_has(const char *verb);
/* Exit status: 0 no problem, 1 problems in the rules, 2 wrong usage. */
int offline_main(int argc, char **argv);
void offline_help_list(FILE *out);
bool offline_help(FILE *out, const char *verb);

#endif
