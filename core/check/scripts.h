/* scripts.h: mistakes that the text of scripts shows, line by line.
 *
 * This is no parser of Lua. Comments and long strings are skipped; unusual layout is
 * overlooked rather than reported wrongly. */
#pragma once

#include "base/slice.h"
#include "findings.h"
#include "rules/engine/survey.h"

typedef void text_fn(void *ctx, struct slice name, int line);

/* Names in `exchange = "name"`, but "-" and "*". */
void text_each_exchange(struct slice text, text_fn *on_name, void *ctx);
/* Keys in `t[tonumber(x)] =` and in `t[n] =` after `local n = tonumber(x)`. */
void text_each_number_key(struct slice text, text_fn *on_key, void *ctx);
/* Names of functions that are defined at the start of a line: `function M.decide(`. */
void text_each_function(struct slice text, text_fn *on_name, void *ctx);

/* Mistakes that scripts show without definitions: files that nothing loads, filters that
 * look like copies or run in an unexpected order, matches that match hardly anything,
 * functions that are defined twice. */
void scripts_check(const struct survey *s, struct findings *f);
