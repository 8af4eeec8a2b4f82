/* publish.h: a message enters the broker: filtered, routed, ranked, put into queues. */
#pragma once

#include "decide.h"

struct commit;

/* The result of a publish; copies made by filters are not counted. */
struct published {
	unsigned queues;   /* how many have it */
	bool is_duplicate; /* all of them had it before: the id is that of the first */
	bool has_offset;   /* a topic has it: the first of them there */
	unsigned topics;   /* of `queues` */
	uint16_t partition;
	uint64_t offset;
	uint64_t id;
};

/* Where a message is already: nothing is stored there. */
struct publish_known {
	bool (*has)(const void *ctx, const struct msg *m, const struct queue *q);
	const void *ctx;
};

/* Would the queue take the message, as publish_route asks? For EXPLAIN: changes and
 * counts nothing. */
TIDE_MUST_USE int publish_check_pick(const struct outcome *o, const struct pick *pick,
				     struct error *err);
/* Publish a message. Of the spec the vhost, the exchange and the message are the
 * caller's. The waiter, when not NULL, is counted up for every copy that is to become
 * durable. On an error nothing was stored. */
TIDE_MUST_USE int publish_message(struct decide_spec *spec, bool is_mandatory,
				  struct waiter *waiter, struct published *out,
				  struct error *err);

/* The message goes to this queue alone: neither filtered nor routed, and it is no publish
 * that is watched. The waiter and the errors are as above. */
TIDE_MUST_USE int publish_to_queue(struct queue *q, struct msg *m, struct waiter *waiter,
				   struct published *out, struct error *err);

/* A publish in pieces, for who writes down the ids in between, or decides about several
 * before it stores one. The first piece is the filters. Call decide_deinit in every
 * case. */
TIDE_MUST_USE int publish_filter(struct decision *d, struct decide_spec *spec,
				 struct error *err);
/* The second: route, shards and ranks, and whether the queues take it. */
TIDE_MUST_USE int publish_route(struct decision *d, struct decide_spec *spec,
				bool is_mandatory, struct error *err);
/* A queue has seen its publish id, and does not know yet whether it keeps that message.
 */
bool publish_is_unsettled(const struct decision *d);
/* A topic that would remember its publish id; NULL: none. A commit has no room for it. */
const struct queue *publish_find_remembering(const struct decision *d);
/* The third: into a commit. */
void publish_commit(const struct decision *d, struct vhost *v, struct commit *c,
		    struct published *out);
/* The second and storing it at once, unless the first has failed. On an error nothing was
 * stored. */
TIDE_MUST_USE int publish_filtered(struct decision *d, struct decide_spec *spec,
				   const struct publish_known *known,
				   struct waiter *waiter, struct error *err);
