/* store_tries.h: what happened to a message so far, as the text that Redis has of it.
 *
 * "<deliveries> <failures> <last reason> <reason>=<count>...": older brokers wrote no
 * counts. */
#pragma once

#include "store.h"

#define STORE_TRIES_TEXT_MAX 160

/* The reason of that number, below STORE_REASONS. */
const char *store_tries_reason(unsigned i);
/* Gives the length. */
size_t store_tries_format(const struct store_tries *tries,
			  char out[STORE_TRIES_TEXT_MAX]);
/* Into the row: what cannot be read counts as nothing. */
void store_tries_parse(const char *text, struct store_row *row);
