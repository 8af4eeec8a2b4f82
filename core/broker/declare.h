/* declare.h: DECLARE: what is not there is made, if the policies let it; what is there is
 * as it is to be, or changes. */
#pragma once

#include "queue.h"

/* As exchange_declare. TIDE_EEXISTS: the name is taken by the other kind. With the option
 * `update`, or `reshard`, what exists changes: update.h. */
TIDE_MUST_USE int declare_queue(struct vhost *v, const struct queue_declare_spec *spec,
				struct queue **out, struct waiter *waiter,
				struct error *err);

struct exchange_declare_spec {
	struct slice name, type;
	const struct args *args;
	struct slice user;
};
/* As exchange_declare; with the option `update` what exists changes: exchange_change. */
TIDE_MUST_USE int declare_exchange(struct vhost *v,
				   const struct exchange_declare_spec *spec,
				   struct exchange **out, struct waiter *waiter,
				   struct error *err);
