/* service_start.h: the start, in its steps: the store, the history of the rules, the
 * gate, the ids, the definitions, the shards, tide.shared, the schedules.
 *
 * Broken rules do not stop it: the last good generation serves then. */
#pragma once

#include "service.h"

/* Load the rules and open the store. hooks.on_started comes from the loop. */
TIDE_MUST_USE int service_start(struct service *s, struct error *err);
