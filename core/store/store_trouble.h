/* store_trouble.h: the kinds of trouble with Redis: one row of a table for each. What is
 * told of them is in store.h. */
#pragma once

#include "store.h"

/* What an error of Redis is. */
enum store_trouble store_trouble_of(const char *text);
