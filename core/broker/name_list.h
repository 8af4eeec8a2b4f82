/* name_list.h: names separated by commas, each once: "a,b". "" has none. */
#pragma once

#include "base/slice.h"

/* Is the text such a list? */
bool name_list_is(struct slice text);
bool name_list_has(struct slice list, struct slice name);
/* The same names, in any order. */
bool name_list_is_same(struct slice a, struct slice b);
