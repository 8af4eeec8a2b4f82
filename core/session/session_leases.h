/* session_leases.h: which leases of a queue end next, and whose they are. */
#pragma once

#include "base/json.h"

struct queue;

/* As a member "leases": an array of at most ten, the one that ends first comes first. */
void session_leases_write(const struct queue *q, struct json *out);
