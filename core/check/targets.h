/* targets.h: exchanges and queues that rules and definitions name and that do not
 * exist. */
#ifndef TIDE_CHECK_TARGETS_H
#define TIDE_CHECK_TARGETS_H

#include "model.h"
#include "rules/engine/survey.h"

/* Reports exchanges that filters match, exchanges in the texts of active filters and
 * schedules (`exchange = "name"`), and targets of dead letters. */
void targets_check(struct model *m, const struct survey *s);

#endif
