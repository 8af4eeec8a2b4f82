/* PURGE of queues and of topics. */
#include "broker/topic.h"
#include "broker/unusable.h"
#include "session_private.h"

static int check_queue(const struct queue *q, const struct purge_spec *spec,
		       struct error *err)
{
	if (spec->before.kind == POSITION_NONE && spec->partition < 0)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "before= and partition= are for topics, and '%s' is a queue",
			 q->name);
}

static int check_topic(const struct queue *q, const struct purge_spec *spec,
		       struct error *err)
{
	if (spec->before.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "before=committed: PURGE knows no group; expected "
				 "first, last, an offset, a time or a duration");
	return session_topic_check_partition(q, spec->partition, err);
}

int session_purge(struct session *s, const struct purge_spec *spec, struct reply *r,
		  struct error *err)
{
	struct queue *q;

	if (session_queue_any(s, USER_READ, spec->queue, &q, err) < 0 ||
	    unusable_check(&q->definition, err) < 0)
		return err->code;
	if (!q->topic)
		return check_queue(q, spec, err) < 0 ? err->code
						     : session_queue_purge(q, r, err);
	if (check_topic(q, spec, err) < 0)
		return err->code;
	r->kind = REPLY_COUNT;
	topic_purge(q->topic, &spec->before, spec->partition, &r->waiter, &r->count);
	reply_when_done(r);
	return TIDE_OK;
}
