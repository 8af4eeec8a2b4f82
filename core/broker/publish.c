#include "publish.h"

#include "../base/mem.h"

#define PICKS_INLINE 32 /* destinations of a message for which nothing is allocated */

struct pick {
	struct queue *queue;
	struct shard *shard;
	double rank;
};

/* Everything that can fail comes first, so that a message is stored in all of
 * its queues or in none. */
static int pick_shards(const struct route *route, const struct msg *m, struct pick *picks,
		       struct error *err)
{
	for (unsigned i = 0; i < route->count; i++) {
		const struct route_target *t = &route->targets[i];
		unsigned shard;
		int rc = route_pick(t, m, &shard, err);

		if (rc < 0)
			return rc;
		picks[i].queue = t->queue;
		picks[i].shard = t->queue->shards[shard];
		picks[i].rank =
			t->has_rank ? t->rank : queue_rank(t->queue, picks[i].shard, m);
	}
	return TIDE_OK;
}

static void store(struct broker *b, const struct pick *picks, unsigned count,
		  struct msg *m, struct waiter *waiter)
{
	for (unsigned i = 0; i < count; i++) {
		picks[i].queue->counters.published++;
		shard_publish(picks[i].shard, m, picks[i].rank, waiter);
	}
	b->counters.routed += count;
}

int publish_message(struct vhost *v, struct exchange *x, struct msg *m, bool is_mandatory,
		    struct waiter *waiter, unsigned *queues, struct error *err)
{
	struct pick inline_picks[PICKS_INLINE], *picks = inline_picks;
	const struct route *route;
	int rc = route_find(v, x, m, &route, err);

	if (rc < 0)
		return rc;
	v->broker->counters.published++;
	if (x)
		x->published++;
	*queues = route->count;
	if (route->count == 0) {
		v->broker->counters.unroutable++;
		if (is_mandatory)
			return error_set(err, TIDE_EUNROUTABLE,
					 "no queue takes key '%" SLICE_FMT
					 "' from exchange '%s'",
					 SLICE_ARG(m->key), x ? x->name : "-");
		return TIDE_OK;
	}
	if (route->count > PICKS_INLINE)
		picks = mem_alloc(route->count * sizeof(*picks));
	rc = pick_shards(route, m, picks, err);
	if (rc == TIDE_OK)
		store(v->broker, picks, route->count, m, waiter);
	if (picks != inline_picks)
		mem_free(picks);
	return rc;
}
