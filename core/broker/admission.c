#include "admission.h"

#include <inttypes.h>

#include "pause.h"
#include "queue.h"

bool admission_is_known(const struct outcome *o, const struct queue *q)
{
	const struct dedupe_key key = decide_dedupe_key(o);

	return o->msg->dedupe_len && queue_dedupe_ms(q) > 0 &&
	       publish_ids_wanted(q->ids, &key) == 0;
}

static int refuse_paused(const struct queue *q, struct error *err)
{
	char until[PAUSE_TEXT_MAX];

	pause_format(q, QUEUE_IN, until);
	return error_set(err, TIDE_EBUSY, "queue '%s' is paused: it takes no messages %s",
			 q->name, until);
}

/* With this message, and what else of the decision it is to take. */
static struct queue_limit wanted(const struct outcome *o, const struct queue *q)
{
	return (struct queue_limit){ q->admitted + 1,
				     q->admitted_bytes + o->msg->payload_len };
}

int admission_check_pick(const struct outcome *o, const struct pick *pick,
			 struct error *err)
{
	const struct queue *q = pick->queue;

	if (!q->is_guarded || admission_is_known(o, q))
		return TIDE_OK;
	if (pause_is_on(q, QUEUE_IN))
		return refuse_paused(q, err);
	if (q->config.max_bytes && o->msg->payload_len > q->config.max_bytes)
		return error_set(
			err, TIDE_ETOOLARGE,
			"a message of %zu bytes is too large for queue '%s': it has "
			"max-bytes=%" PRIu64,
			o->msg->payload_len, q->name, q->config.max_bytes);
	if (!q->config.overflow && queue_limit_is_over(q, wanted(o, q)))
		return queue_limit_refuse(q, wanted(o, q), err);
	return TIDE_OK;
}

/* Somebody who waits for a message would have it at the end of the turn. */
static void make_room(const struct outcome *o, struct queue *q)
{
	if (q->able.count > 0 && queue_limit_is_over(q, wanted(o, q)))
		q->vhost->broker->deal(q);
}

static int check_outcome(const struct outcome *o, bool may_deal, struct error *err)
{
	for (unsigned i = 0; i < o->count; i++) {
		struct queue *q = o->picks[i].queue;

		if (!q->is_guarded)
			continue;
		if (may_deal && queue_limit_has(q))
			make_room(o, q);
		if (admission_check_pick(o, &o->picks[i], err) < 0) {
			q->counters.refused++;
			return err->code;
		}
		q->admitted++;
		q->admitted_bytes += o->msg->payload_len;
		/* One that is delayed makes no consumer look at the queue. */
		if (q->config.overflow)
			queue_activate(q);
	}
	return TIDE_OK;
}

static void forget(const struct outcome *o)
{
	for (unsigned i = 0; i < o->count; i++)
		o->picks[i].queue->admitted = o->picks[i].queue->admitted_bytes = 0;
}

int admission_check(const struct decision *d, bool may_deal, struct error *err)
{
	int rc = check_outcome(&d->first, may_deal, err);

	for (unsigned i = 0; i < d->copy_count && rc == TIDE_OK; i++)
		rc = check_outcome(&d->copies[i], may_deal, err);
	forget(&d->first);
	for (unsigned i = 0; i < d->copy_count; i++)
		forget(&d->copies[i]);
	return rc;
}
