/* config_file.h: the broker's configuration as a Lua table.
 *
 *   -- the names are those of `tidemq help serve`, without the dashes
 *   return { listen = { "127.0.0.1:7310", "unix:/run/tidemq.sock" }, fsync = "everysec" }
 *
 * The file runs in the sandbox that rules run in: it can compute, and reach
 * nothing. */
#ifndef TIDE_RULES_SANDBOX_CONFIG_FILE_H
#define TIDE_RULES_SANDBOX_CONFIG_FILE_H

#include "base/error.h"

/* Called for each value; what it refuses ends the reading. The strings are good
 * for the call. */
typedef int (*config_value_fn)(void *ctx, const char *name, const char *value,
			       struct error *err);

/* Run the file and hand out what it returns, sorted by name, the elements of a
 * list in their order. TIDE_ERULE with file and line when it fails;
 * TIDE_ENOTFOUND when there is no such file. */
TIDE_MUST_USE int config_file_read(const char *path, config_value_fn on_value, void *ctx,
				   struct error *err);

#endif
