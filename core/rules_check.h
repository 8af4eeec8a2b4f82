/* rules_check.h: `tidemq check`: a rules directory looked at before it goes live. */
#ifndef TIDE_RULES_CHECK_H
#define TIDE_RULES_CHECK_H

/* Load the directory as a broker would, lint it when luacheck is installed, and
 * with `url` (may be NULL) hold it against what the broker there has: exchange
 * types, strategies, dead-letter targets, filters that match nothing, loops.
 * Prints what it finds.
 *
 * @return  exit status: 0 nothing is wrong, 1 something is */
int check_run(const char *dir, const char *lua_dir, const char *url);

#endif
