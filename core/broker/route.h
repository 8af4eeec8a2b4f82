/* route.h: which queues, and which shards of them, a message goes to. */
#pragma once

#include "route_cache.h"

struct decide_spec;
struct outcome;

/* The route of an outcome's message from its exchange. The result is good until the next
 * call. Only a live decision by the active rules is remembered. */
TIDE_MUST_USE int route_find(const struct decide_spec *spec, const struct outcome *o,
			     const struct route **out, struct error *err);
