/* route.h: which queues, and which shards of them, a message goes to. */
#pragma once

#include "access/subject.h"
#include "exchange.h"
#include "queue.h"

struct vhost;

struct decide_spec;
struct outcome;

/* Publish to the exchange; an empty one is the default exchange: then the queue that the
 * key names is what is asked about. TIDE_EDENIED: subject.h */
TIDE_MUST_USE int route_check_access(struct subject *s, struct vhost *v,
				     struct slice exchange, struct slice key,
				     struct error *err);
/* The kind of thing that has the name; a queue when there is nothing of that name. */
enum subject_kind route_subject_kind(struct vhost *v, struct slice name);

/* The route of an outcome's message from its exchange. The result is good until the next
 * call. Only a live decision by the active rules is remembered. */
TIDE_MUST_USE int route_find(const struct decide_spec *spec, const struct outcome *o,
			     const struct route **out, struct error *err);
