/* address.h: where a publish goes, and who may send it there. */
#pragma once

#include "access/subject.h"

struct vhost;

/* Publish to the exchange; an empty one is the default exchange: then the queue that the
 * key names is what is asked about. TIDE_EDENIED: subject.h */
TIDE_MUST_USE int address_check(struct subject *s, struct vhost *v, struct slice exchange,
				struct slice key, struct error *err);
/* The kind of thing that has the name; a queue when there is nothing of that name. */
enum subject_kind address_kind(struct vhost *v, struct slice name);
