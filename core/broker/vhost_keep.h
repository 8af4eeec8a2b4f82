/* vhost_keep.h: vhosts that are declared and deleted by a client.
 *
 * A vhost that Redis knows stays, empty too, until it is deleted here. */
#pragma once

#include "base/error.h"
#include "base/slice.h"

struct broker;
struct vhost;
struct waiter;

/* Make it, or keep the one that there is. `waiter` is told when Redis knows of it. */
TIDE_MUST_USE int vhost_keep_declare(struct broker *b, struct slice name,
				     struct waiter *waiter, struct error *err);
/* It must have no queue, no exchange of its own and no lock: TIDE_EEXISTS. Sessions that
 * work in it may stay: it goes with the last of them. */
TIDE_MUST_USE int vhost_keep_delete(struct vhost *v, struct waiter *waiter,
				    struct error *err);
