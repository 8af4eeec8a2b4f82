/* hidden.h: texts that no error and no line of the log shows: passwords and secrets.
 *
 * A script that is given such a text may put it into its errors by accident. Zeroed
 * memory is an empty list. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"

/* What is kept: a secret that was changed may still be in use. The oldest goes. */
#define HIDDEN_MAX 256
#define HIDDEN_PART_MAX 12
/* No line shows more of a text. */
#define HIDDEN_LINE_MAX 1024

struct hidden {
	struct slice texts[HIDDEN_MAX]; /* owned */
	size_t count, next;
};

void hidden_deinit(struct hidden *h);
/* Copies the text. An empty one hides nothing. */
void hidden_add(struct hidden *h, struct slice text);
/* Would a line with the text at its front show a part of `secret`: HIDDEN_PART_MAX bytes
 * in a row, or all of a shorter one? */
bool hidden_is_shown(struct slice secret, struct slice text);
/* The same for each of the list. `h` may be NULL. */
bool hidden_is_in(const struct hidden *h, struct slice text);
