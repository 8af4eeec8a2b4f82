/* Queues, as a session may use them; KICK. */
#include "broker/unusable.h"
#include "session_private.h"

int session_queue_any(struct session *s, enum user_action action, struct slice name,
		      struct queue **out, struct error *err)
{
	struct queue *q;

	if (session_access_check_queue(s, action, name, err) < 0)
		return err->code;
	q = queue_find(s->vhost, name);
	if (!q)
		return session_missing(s, SUBJECT_QUEUE, name, err);
	if (q->owner && q->owner != &s->exclusive)
		return error_set(err, TIDE_EDENIED,
				 "queue '%s' belongs to another connection", q->name);
	*out = q;
	return TIDE_OK;
}

int session_queue_find(struct session *s, enum user_action action, struct slice name,
		       struct queue **out, struct error *err)
{
	int rc = session_queue_any(s, action, name, out, err);

	if (rc < 0 || !(*out)->topic)
		return rc;
	return error_set(err, TIDE_EDENIED, "'%s' is a topic: this request takes a queue",
			 (*out)->name);
}

int session_queue_find_topic(struct session *s, enum user_action action,
			     struct slice name, struct queue **out, struct error *err)
{
	if (session_access_check_queue(s, action, name, err) < 0)
		return err->code;
	*out = queue_find(s->vhost, name);
	if (!*out)
		return session_missing(s, SUBJECT_TOPIC, name, err);
	if ((*out)->topic)
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED, "'%s' is a queue: this request takes a topic",
			 (*out)->name);
}

int session_queue_usable(struct session *s, enum user_action action, struct slice name,
			 struct queue **out, struct error *err)
{
	int rc = session_queue_find(s, action, name, out, err);

	return rc == TIDE_OK ? unusable_check(&(*out)->definition, err) : rc;
}

int session_queue_check_get(const struct queue *q, struct error *err)
{
	if (!q->config.is_single_active)
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "queue '%s' is single-active: only SUB takes its messages",
			 q->name);
}

static int check_quiet(const struct queue *q, struct error *err)
{
	for (unsigned i = 0; i < q->shard_count; i++)
		if (q->shards[i]->is_held_back || q->shards[i]->kick)
			return error_set(err, TIDE_EBUSY,
					 "queue '%s' is being purged or kicked already",
					 q->name);
	return TIDE_OK;
}

int session_queue_purge(struct queue *q, struct reply *r, struct error *err)
{
	uint64_t count = 0;

	if (check_quiet(q, err) < 0)
		return err->code;
	for (unsigned i = 0; i < q->shard_count; i++)
		count += shard_purge(q->shards[i], &r->waiter);
	reply_count(r, count);
	return TIDE_OK;
}

int session_queue_kick(struct session *s, const struct kick_spec *spec, struct reply *r,
		       struct error *err)
{
	uint64_t max = spec->max ? spec->max : UINT64_MAX;
	struct queue *q;

	if (spec->id && spec->max)
		return error_set(err, TIDE_ESYNTAX,
				 "KICK takes a number or id=, not both");
	if (spec->id)
		return session_by_id_kick(s, spec, r, err);
	if (session_queue_usable(s, USER_READ, spec->queue, &q, err) < 0 ||
	    check_quiet(q, err) < 0)
		return err->code;
	reply_count(r, shard_kick(q->shards, q->shard_count, max, &r->waiter));
	return TIDE_OK;
}
