/* steps.h: what `tidemq check` looks at, a file each. */
#pragma once

#include "model.h"
#include "rules/engine/survey.h"

/* Mistakes that scripts show without definitions: files that nothing loads, filters that
 * look like copies or run in an unexpected order, matches that match hardly anything,
 * functions that are defined twice. */
void scripts_check(const struct survey *s, struct findings *f);

/* The warnings of luacheck, if it is installed. Skips lines for which `f` has a problem
 * already. Blocks until luacheck ends. */
void lint_rules(const char *dir, struct findings *f);

/* Appends the exchanges, queues and bindings of the URL's vhost as the requests that
 * would make them: lines of DECLARE and BIND. Blocks. */
TIDE_MUST_USE int ask_broker(const char *url, struct buf *lines, struct error *err);

/* Exchanges and queues that do not exist: exchanges that filters match, exchanges in the
 * texts of active filters and schedules (`exchange = "name"`), targets of dead letters.
 */
void targets_check(struct model *m, const struct survey *s);

/* Queues whose dead letters come back, and exchanges that are bound to themselves in the
 * end. Dead letters are decided by the rules of the model, as a broker decides them. */
void circles_check(struct model *m);
