/* scripts.h: mistakes that the scripts of a rules directory show by themselves, without
 * definitions. */
#ifndef TIDE_CHECK_SCRIPTS_H
#define TIDE_CHECK_SCRIPTS_H

#include "findings.h"
#include "rules/engine/survey.h"

/* Files that nothing loads, filters that look like copies or run in an unexpected order,
 * matches that match hardly anything, functions that are defined twice. */
void scripts_check(const struct survey *s, struct findings *f);

#endif
