/* lint.h: what luacheck says of a rules directory, when it is installed. */
#ifndef TIDE_CHECK_LINT_H
#define TIDE_CHECK_LINT_H

#include "base/findings.h"

/* What `f` has for a line already is not said again. */
void lint_rules(const char *dir, struct findings *f);

#endif
