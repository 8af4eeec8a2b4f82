/* declare.h: DECLARE: what is not there is made, if the policies let it; what is there is
 * as it is to be, or changes. */
#pragma once

#include "queue.h"

struct policy_watch;

/* An equal one that exists is the one. TIDE_EMISMATCH: it has other options.
 * TIDE_EEXISTS: the name is taken by the other kind. With the option `update`, or
 * `reshard`, what exists changes: update.h. TIDE_EBUSY: it may be asked for again when
 * its turn comes, see definition_wait. */
TIDE_MUST_USE int declare_queue(struct vhost *v, const struct queue_declare_spec *spec,
				struct queue **out, struct waiter *waiter,
				struct error *err);

struct exchange_declare_spec {
	struct slice name, type;
	const struct args *args;
	struct slice user;
	bool is_its_turn; /* as of queues */
};
/* `args`: durable, auto-delete, internal, alternate, and the script's own. Likewise; what
 * exists changes by exchange_update.h. */
TIDE_MUST_USE int declare_exchange(struct vhost *v,
				   const struct exchange_declare_spec *spec,
				   struct exchange **out, struct waiter *waiter,
				   struct error *err);

/* What the policies would make of it. Nothing is declared, and nobody is told. Of what
 * exists: of its own options with these over them. TIDE_EREJECTED, TIDE_ERULE: as
 * policy_ask. */
TIDE_MUST_USE int declare_ask_queue(struct vhost *v,
				    const struct queue_declare_spec *spec,
				    const struct policy_watch *w, struct queue_terms *out,
				    struct error *err);
TIDE_MUST_USE int declare_ask_exchange(struct vhost *v,
				       const struct exchange_declare_spec *spec,
				       const struct policy_watch *w,
				       struct exchange_terms *out, struct error *err);
