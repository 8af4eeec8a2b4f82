/* declare.h: DECLARE of a queue or a topic: it is made, it is what it is to be, or it
 * changes. */
#pragma once

#include "queue.h"

/* As exchange_declare. TIDE_EEXISTS: the name is taken by the other kind. With the option
 * `update`, or `reshard`, what exists changes: update.h. */
TIDE_MUST_USE int declare_queue(struct vhost *v, const struct queue_declare_spec *spec,
				struct queue **out, struct waiter *waiter,
				struct error *err);
