/* stomp_ensure.h: the queues, exchanges and bindings that destinations ask for.
 *
 * Each is declared by a request of its own, whose answer is a part of that to the frame.
 */
#pragma once

#include "stomp_channel.h"
#include "stomp_options.h"

/* Declare it. */
TIDE_MUST_USE int stomp_ensure_declared(struct stomp *l, struct stomp_channel *ch,
					struct stomp_frame *f,
					const struct declare_spec *spec);
/* A queue with these options, or if there are none, with any. */
int stomp_ensure_queue(struct stomp *l, struct stomp_channel *ch, struct stomp_frame *f,
		       struct slice name, const struct stomp_options *options);
/* The queue gets what its destination, an exchange with a pattern, gets. */
TIDE_MUST_USE int stomp_ensure_bound(struct stomp *l, struct stomp_channel *ch,
				     struct stomp_frame *f, struct slice queue,
				     const struct stomp_destination *d);
