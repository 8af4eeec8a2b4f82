/* service_rules.h: the engine of the active rules, and what follows from a change. */
#pragma once

#include "rules/engine/reload.h"
#include "service.h"

struct bundle;

/* Load these rules and make them active, before it returns.
 * @param refusal  why they are loaded instead of the rules directory; NULL: they are what
 *                 was read of it */
TIDE_MUST_USE int service_rules_load(struct service *s, struct bundle *files,
				     const struct error *refusal, struct error *err);
