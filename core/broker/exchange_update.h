/* exchange_update.h: other options for an exchange that is in use. As of queues
 * (update.h): all of them change at once, or none; Redis is told first.
 *
 * One that its script refuses may get any options of the script. */
#pragma once

#include "base/error.h"

struct exchange;
struct exchange_terms;
struct policy_watch;
struct waiter;

/* The waiter is told when it is done. The exchange is not busy: definition_is_busy.
 * TIDE_EMISMATCH: an option cannot change, or the script refuses its own. */
TIDE_MUST_USE int exchange_update_terms(struct exchange *x,
					struct exchange_terms *next_take,
					struct waiter *waiter, struct error *err);
/* Ask the policies of one that exists again. What they cannot change stays, and the
 * log says so. */
void exchange_update_renew(struct exchange *x);
/* Ask them for who looks on: nothing changes. */
void exchange_update_ask(const struct exchange *x, const struct policy_watch *w);
/* At the start, before it has a script: likewise. */
void exchange_update_restored(struct exchange *x);
