/* config_file.h: the broker's configuration as a Lua table.
 *
 *   -- the names of `tidemq help serve`, without the dashes
 *   return { listen = { "127.0.0.1:7310", "unix:/run/tidemq.sock" }, fsync = "everysec" }
 *
 * The file runs in the sandbox of the rules: it can compute, and reaches nothing. */
#pragma once

#include "base/error.h"

/* Called for each value. An error ends the reading. The strings are good for the call. */
typedef int (*config_value_fn)(void *ctx, const char *name, const char *value,
			       struct error *err);

/* Run the file and pass on what it returns, sorted by name, the elements of a list in
 * their order. TIDE_ERULE: the file fails; the error has file and line. TIDE_ENOTFOUND:
 * there is no such file. */
TIDE_MUST_USE int config_file_read(const char *path, config_value_fn on_value, void *ctx,
				   struct error *err);
