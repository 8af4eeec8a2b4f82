/* session_leases.h: which messages of a queue have been held for longest, and by whom. */
#pragma once

#include "base/json.h"

struct queue;

/* As a member "leases": an array of at most ten, the one held for longest comes first. */
void session_leases_write(const struct queue *q, struct json *out);
