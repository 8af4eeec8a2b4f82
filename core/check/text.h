/* text.h: what can be seen in the text of a script, line by line.
 *
 * This is no parser of Lua. Comments and long strings are skipped; unusual layout is
 * overlooked rather than reported wrongly. */
#pragma once

#include "base/slice.h"

typedef void text_fn(void *ctx, struct slice name, int line);

/* Names in `exchange = "name"`, but "-" and "*". */
void text_each_exchange(struct slice text, text_fn *on_name, void *ctx);
/* Keys in `t[tonumber(x)] =` and in `t[n] =` after `local n = tonumber(x)`. */
void text_each_number_key(struct slice text, text_fn *on_key, void *ctx);
/* Names of functions that are defined at the start of a line: `function M.decide(`. */
void text_each_function(struct slice text, text_fn *on_name, void *ctx);
