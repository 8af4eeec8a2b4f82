/* publish.h: a message enters the broker: filtered, routed, ranked, put into queues. */
#ifndef TIDE_BROKER_PUBLISH_H
#define TIDE_BROKER_PUBLISH_H

#include "route.h"

/* Publish `m` through `x` (NULL: the default exchange). The waiter, when not
 * NULL, is counted up for every copy that is to become durable. `*queues`
 * tells how many took it, copies made by filters not counted. On an error nothing was
 * stored. */
TIDE_MUST_USE int publish_message(struct vhost *v, struct exchange *x, struct msg *m,
				  bool is_mandatory, struct waiter *waiter,
				  unsigned *queues, struct error *err);

#endif
