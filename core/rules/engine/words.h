/* words.h: a set of texts in the order in which they were added. A text that is
 * in it stays where it is in memory. */
#ifndef TIDE_RULES_ENGINE_WORDS_H
#define TIDE_RULES_ENGINE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"
#include "bundle.h"

struct words {
	char **items; /* zero-terminated; without zero bytes inside */
	size_t count, cap;
};

void words_deinit(struct words *w);
/* The text in the set; `is_new`, which may be NULL, tells whether it is now. */
const char *words_add(struct words *w, struct slice text, bool *is_new);

/* The literals of a Lua text: strings, also as a text that they match if they are
 * patterns, and numbers, their products, and the next ones on both sides. At most
 * `max` in all. */
void words_add_literals(struct words *w, const struct bundle_file *file, size_t max);

/* Append to `out` a text that the Lua pattern matches, when it is a simple one. */
void words_match_pattern(struct buf *out, struct slice pattern);

#endif
