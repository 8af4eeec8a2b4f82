/* unread.h: Lua files of a rules directory that nothing loads, although their names
 * suggest otherwise.
 *
 * Modules that no script requires are not reported: they do no harm. */
#ifndef TIDE_RULES_UNREAD_H
#define TIDE_RULES_UNREAD_H

#include <stdint.h>

struct generation;

/* @param path  relative to the rules directory
 * @param why   follows the path in a sentence: "is not loaded: ..." */
typedef void unread_fn(void *ctx, const char *path, const char *why);

/* Calls `on_file` for each such file, in the order of their names. `g` is what was
 * loaded from the directory. Reads the directory; blocks. */
void unread_each(const char *rules_dir, const struct generation *g, unread_fn *on_file,
		 void *ctx);

/* Logs a warning for each such file, unless all of them were logged last time.
 *
 * @param about  the first words of the log line
 * @param known  in and out: a hash of the files that were logged last; 0 at first */
void unread_warn(const char *about, const char *rules_dir, const struct generation *g,
		 uint64_t *known);

#endif
