/* lint.h: the warnings of luacheck, if it is installed. */
#ifndef TIDE_CHECK_LINT_H
#define TIDE_CHECK_LINT_H

#include "findings.h"

/* Skips lines for which `f` has a finding already. Blocks until luacheck ends. */
void lint_rules(const char *dir, struct findings *f);

#endif
