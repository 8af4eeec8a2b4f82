/* declare.h: DECLARE: what is not there is made, if the policies let it; what is there is
 * as it is to be, or changes. */
#pragma once

#include "base/waiter.h"
#include "queue.h"

struct policies;
struct subject;

/* Ask the policies (declare/) for who looks on: nothing changes. */
void declare_ask_again(struct definition *d, const struct policy_watch *w);

/* The policies are asked about what there is: at the start, and again when other rules
 * become active, between the turns of the loop. */
struct policies *declare_policies_create(struct broker *b);
void declare_policies_destroy(struct policies *p);
/* The definitions have been read from Redis; nothing is attached to the rules yet.
 * Likewise for each generation that the start tries. */
void declare_policies_begin(struct broker *b);
/* There is a new generation; what cannot be used has not been tried with it yet. */
void declare_policies_renew(struct broker *b);

/* An equal one that exists is the one. TIDE_EMISMATCH: it has other options.
 * TIDE_EEXISTS: the name of a queue is a topic's, or the other way round. With the option
 * `update`, or `reshard`, what exists changes. TIDE_EBUSY: it may be asked for
 * again when its turn comes, see definition_wait. */
TIDE_MUST_USE int declare_one(struct vhost *v, const struct terms_spec *spec,
			      struct definition **out, struct waiter *waiter,
			      struct error *err);
/* There is room for one more queue or topic: TIDE_ELIMIT. What is in Redis comes back at
 * a start whatever the limit is. */
TIDE_MUST_USE int declare_check_room(const struct broker *b, struct error *err);
/* Make a queue of which nothing is known but its name, for who needs it: vhost_makes. He
 * may declare it, and the policies let him. */
TIDE_MUST_USE int declare_on_demand(struct vhost *v, struct subject *subject,
				    struct slice user, struct slice name,
				    struct queue **out, struct error *err);
/* The terms that policies would make of a declaration, with spec->watch looking on: a
 * dry run, of which no hook is told. Of an existing thing: of its own options with
 * these over them. TIDE_EREJECTED, TIDE_ERULE: as policy_ask. */
TIDE_MUST_USE int declare_ask(struct vhost *v, const struct terms_spec *spec,
			      struct terms *out, struct error *err);
