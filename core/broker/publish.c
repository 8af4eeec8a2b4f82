#include "publish.h"

#include "decide.h"

static void store(struct broker *b, const struct outcome *o, struct waiter *waiter)
{
	b->counters.published++;
	if (o->exchange)
		o->exchange->published++;
	if (o->count == 0)
		b->counters.unroutable++;
	for (unsigned i = 0; i < o->count; i++) {
		o->picks[i].queue->counters.published++;
		shard_publish(o->picks[i].shard, o->msg, o->picks[i].rank, waiter);
	}
	b->counters.routed += o->count;
}

static void apply(const struct decision *d, struct broker *b, struct waiter *waiter)
{
	store(b, &d->first, waiter);
	for (unsigned i = 0; i < d->copy_count; i++)
		store(b, &d->copies[i], waiter);
}

static int refuse_unroutable(const struct outcome *o, struct broker *b, struct error *err)
{
	b->counters.unroutable++;
	return error_set(err, TIDE_EUNROUTABLE,
			 "no queue takes key '%" SLICE_FMT "' from exchange '%s'",
			 SLICE_ARG(o->msg->key), o->exchange ? o->exchange->name : "-");
}

int publish_message(struct vhost *v, struct exchange *x, struct msg *m, bool is_mandatory,
		    struct waiter *waiter, unsigned *queues, struct error *err)
{
	const struct decide_spec spec = { .vhost = v, .exchange = x, .msg = m };
	struct decision d;
	int rc = decide(&d, &spec, err);

	*queues = 0;
	if (rc == TIDE_OK && is_mandatory && d.first.count == 0)
		rc = refuse_unroutable(&d.first, v->broker, err);
	if (rc == TIDE_OK) {
		apply(&d, v->broker, waiter);
		*queues = d.first.count;
	}
	decision_deinit(&d);
	return rc;
}
