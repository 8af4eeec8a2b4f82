/* publish.h: a message enters the broker: filtered, routed, ranked, put into queues. */
#pragma once

#include "decide.h"

/* What became of a message; copies made by filters are not counted. */
struct published {
	unsigned queues;   /* how many have it */
	bool is_duplicate; /* all of them had it before: the id is that of the first */
	uint64_t id;
};

/* Publish a message. Of the spec the vhost, the exchange and the message are the
 * caller's. The waiter, when not NULL, is counted up for every copy that is to become
 * durable. On an error nothing was stored. */
TIDE_MUST_USE int publish_message(struct decide_spec *spec, bool is_mandatory,
				  struct waiter *waiter, struct published *out,
				  struct error *err);

/* Where a message is already: nothing is stored there. */
struct publish_known {
	bool (*has)(const void *ctx, const struct msg *m, const struct queue *q);
	const void *ctx;
};

/* A publish in two halves, for who writes down the ids in between. The first half is the
 * filters. Call decide_deinit in every case. */
TIDE_MUST_USE int publish_filter(struct decision *d, struct decide_spec *spec,
				 struct error *err);
/* The second, unless the first has failed. On an error nothing was stored. */
TIDE_MUST_USE int publish_filtered(struct decision *d, struct decide_spec *spec,
				   const struct publish_known *known,
				   struct waiter *waiter, struct error *err);
