/* args.h: options as name=value pairs, in the order they were given.
 *
 * The form of DECLARE's and BIND's options on their way from the wire to the model, to
 * the scripts (a table) and to Redis (the canonical text). Names are unique. The value of
 * a flag is "1". Zeroed args are empty. */
#pragma once

#include "buf.h"

#define ARGS_MAX 64

struct arg {
	char *name;
	char *value;
	size_t value_len;
};

struct args {
	struct arg *items;
	size_t count;
};

void args_deinit(struct args *a);
/* Copies both; TIDE_EEXISTS when the name is there, TIDE_ETOOLONG over
 * ARGS_MAX. TIDE_ESYNTAX for a value with a zero byte, and for a name that is
 * none (slice_is_name) or has a '=' in it. */
TIDE_MUST_USE int args_add(struct args *a, struct slice name, struct slice value);
/* Another value for a name that is there. */
void args_set(struct args *a, const char *name, const char *value);
/* The value, or NULL. */
const char *args_get(const struct args *a, const char *name);
/* `to` holds nothing before. */
void args_copy(struct args *to, const struct args *from);
void args_sort(struct args *a);

/* "name=value name=value", sorted by name, values percent-encoded. */
void args_format(const struct args *a, struct buf *out);
/* Parse what args_format wrote into `a`, which is empty before; TIDE_ESYNTAX
 * otherwise, and `a` is empty then. */
TIDE_MUST_USE int args_parse(struct args *a, struct slice text);
