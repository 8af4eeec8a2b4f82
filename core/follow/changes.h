/* changes.h: in what two messages differ, told as an array of objects: what filters
 * did to a message, or what two filters made of it.
 *
 * An object has `field` (exchange, key, dedupe_id, priority, due, expires, header,
 * payload), of a header its `name`, and the two values, of a payload the two lengths. */
#pragma once

#include "base/json.h"
#include "base/msg.h"

struct changes {
	struct json *out; /* inside an array; NULL: they are counted only */
	/* The names of the values: "from" and "to", or else. */
	const char *one, *other;
	unsigned copy; /* 0: the message; n: its n-th copy, told as `copy` */
	unsigned count;
};

/* Add those between two messages. */
void changes_add(struct changes *c, const struct msg *one, const struct msg *other);
/* Add the changes in headers alone. */
void changes_add_headers(struct changes *c, const struct msg *one,
			 const struct msg *other);
/* A difference in a number; none when they are equal. */
void changes_add_int(struct changes *c, const char *field, int64_t one, int64_t other);
