/* service_rules.h: the engine of the active rules, and what follows from a change. */
#ifndef TIDE_SESSION_SERVICE_RULES_H
#define TIDE_SESSION_SERVICE_RULES_H

#include "service.h"

struct bundle;

/* Load the rules, from the rules directory or from `last_good`, and make them active.
 * @param last_good  NULL: the rules directory */
TIDE_MUST_USE int service_rules_load(struct service *s, struct bundle *last_good,
				     struct error *err);
/* The rules directory has changed: load it, as the gate allows. */
void service_rules_follow(struct service *s);
/* An operator wants the rules directory loaded, as the gate allows. The outcome is
 * logged. */
void service_rules_reload(struct service *s);

#endif
