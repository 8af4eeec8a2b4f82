/* topic.h: topic patterns in C, for the `match` of filters: words with dots
 * between them, `*` is one word, `#` any number. The grammar is that of
 * lua/tide/topic_trie.lua. */
#ifndef TIDE_RULES_ENGINE_TOPIC_H
#define TIDE_RULES_ENGINE_TOPIC_H

#include <stdbool.h>

#include "base/slice.h"

/* Takes (words of the pattern) x (words of the key) steps at most. */
bool topic_matches(struct slice pattern, struct slice key);

#endif
