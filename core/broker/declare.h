/* declare.h: DECLARE: what is not there is made, if the policies let it; what is there is
 * as it is to be, or changes. */
#pragma once

#include "queue.h"

/* An equal one that exists is the one. TIDE_EMISMATCH: it has other options.
 * TIDE_EEXISTS: the name is taken by the other kind. With the option `update`, or
 * `reshard`, what exists changes: update.h. */
TIDE_MUST_USE int declare_queue(struct vhost *v, const struct queue_declare_spec *spec,
				struct queue **out, struct waiter *waiter,
				struct error *err);

struct exchange_declare_spec {
	struct slice name, type;
	const struct args *args;
	struct slice user;
};
/* `args`: durable, auto-delete, internal, alternate, and the script's own. Likewise; what
 * exists changes by exchange_update.h. */
TIDE_MUST_USE int declare_exchange(struct vhost *v,
				   const struct exchange_declare_spec *spec,
				   struct exchange **out, struct waiter *waiter,
				   struct error *err);
