/* admission.h: whether the queues of a decision take its messages: one refuses, or all
 * take them. */
#pragma once

#include "decide.h"

/* TIDE_EBUSY: a queue is paused. TIDE_EFULL: it is at a limit, and refuses what is more.
 * TIDE_ETOOLARGE: it never takes so much.
 * What a queue has seen already (PUB id=) it need not take. To be called when
 * broker.guarded is not 0.
 *
 * @param may_deal  consumers may be served now, to make room */
TIDE_MUST_USE int admission_check(const struct decision *d, bool may_deal,
				  struct error *err);
/* The same for one queue; for EXPLAIN. Changes and counts nothing. */
TIDE_MUST_USE int admission_check_pick(const struct outcome *o, const struct pick *pick,
				       struct error *err);
/* The queue or the topic has seen the publish id of the message. */
bool admission_is_known(const struct outcome *o, const struct queue *q);
