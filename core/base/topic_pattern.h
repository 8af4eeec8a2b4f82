/* topic_pattern.h: topic patterns in C, for the `match` of filters and of requests. Dots
 * separate words, which may be empty. `*` is one word, `#` any number.
 * lua/tide/topic_trie.lua has the same grammar.
 */
#pragma once

#include <stdbool.h>

#include "slice.h"

/* The fault of a pattern, as the rest of a sentence about it; NULL: the pattern is
 * right. It has no wildcard inside a word, and '#' at most twice.
 * Those with only wildcards between them count once. */
const char *topic_pattern_fault(struct slice pattern);

/* At most (words of the pattern) x (words of the key) steps. */
bool topic_pattern_matches(struct slice pattern, struct slice key);
