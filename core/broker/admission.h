/* admission.h: whether the queues of a decision take its messages: one refuses, or all
 * take them. */
#pragma once

#include "decide.h"

/* TIDE_EBUSY: a queue is paused. What a queue has seen already (PUB id=) it need not
 * take. Call it when broker.guarded is not 0. */
TIDE_MUST_USE int admission_check(const struct decision *d, struct error *err);
/* The same for one queue; for EXPLAIN. Counts nothing. */
TIDE_MUST_USE int admission_check_pick(const struct outcome *o, const struct pick *pick,
				       struct error *err);
