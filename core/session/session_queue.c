/* Queues, as a session may use them: KICK, PURGE, PAUSE and RESUME, REDRIVE. */
#include "base/container.h"
#include "base/mem.h"
#include "broker/pause.h"
#include "broker/redrive.h"
#include "broker/topic.h"
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

static int purge_queue(struct queue *q, struct reply *r, struct error *err)
{
	uint64_t count = 0;

	if (check_quiet(q, err) < 0)
		return err->code;
	for (unsigned i = 0; i < q->shard_count; i++)
		count += shard_purge(q->shards[i], &r->waiter);
	reply_count(r, count);
	return TIDE_OK;
}

int session_queue_kick(struct queue *q, const struct kick_spec *spec, struct reply *r,
		       struct error *err)
{
	uint64_t max = spec->max ? spec->max : UINT64_MAX;

	if (spec->id && spec->max)
		return error_set(err, TIDE_ESYNTAX,
				 "KICK takes a number or id=, not both");
	if (spec->id)
		return session_by_id_kick(q, spec, r);
	if (check_quiet(q, err) < 0)
		return err->code;
	reply_count(r, shard_kick(q->shards, q->shard_count, max, &r->waiter));
	return TIDE_OK;
}

/* PURGE. */

int session_purge(struct queue *q, const struct purge_spec *spec, struct reply *r,
		  struct error *err)
{
	if (!q->topic && (spec->before.kind != POSITION_NONE || spec->partition >= 0))
		return error_set(
			err, TIDE_ESYNTAX,
			"before= and partition= are for topics, and '%s' is a queue",
			q->name);
	if (!q->topic)
		return purge_queue(q, r, err);
	if (spec->before.kind == POSITION_COMMITTED)
		return error_set(err, TIDE_ESYNTAX,
				 "before=committed: PURGE knows no group; expected "
				 "first, last, an offset, a time or a duration");
	if (session_topic_check_partition(q, spec->partition, err) < 0)
		return err->code;
	r->kind = REPLY_COUNT;
	topic_purge(q->topic, &spec->before, spec->partition, &r->waiter, &r->count);
	reply_when_done(r);
	return TIDE_OK;
}

/* PAUSE, RESUME. */

int session_pause(struct queue *q, const struct pause_spec *spec, struct reply *r)
{
	int64_t until_ms = 0;

	if (!spec->is_resume)
		until_ms = spec->for_ms ? q->vhost->broker->now_ms + spec->for_ms
					: PAUSE_FOREVER;
	pause_set(q,
		  (unsigned)(spec->which != PAUSE_OUT) << QUEUE_IN |
			  (unsigned)(spec->which != PAUSE_IN) << QUEUE_OUT,
		  until_ms, &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}

/* REDRIVE. */

struct redriving {
	struct redrive redrive;
	struct reply *reply;
};

static void on_redriven(struct redrive *redrive)
{
	struct redriving *job = container_of(redrive, struct redriving, redrive);

	if (redrive->err.code < 0)
		reply_error(job->reply, &redrive->err);
	else
		reply_counts(job->reply, redrive->moved, redrive->left);
	mem_free(redrive->exchange);
	mem_free(redrive->key);
	mem_free(job);
}

static int read_target(struct session *s, struct slice to, struct redrive *out,
		       struct error *err)
{
	struct slice exchange, key;

	if (!to.data)
		return TIDE_OK;
	if (!config_read_target(to, &exchange, &key))
		return error_set(err, TIDE_ESYNTAX,
				 "to=%.*s: expected <exchange>/<key>, with - for the "
				 "default exchange, which needs a key (a queue's name); "
				 "without a key the message keeps its own",
				 SLICE_HEAD(to, 64));
	if (session_access_check_write(s, exchange, key, err) < 0)
		return err->code;
	if (exchange.len && !exchange_find(s->vhost, exchange))
		return session_missing(s, SUBJECT_EXCHANGE, exchange, err);
	out->exchange = mem_strndup(exchange.data, exchange.len);
	out->key = key.len ? mem_strndup(key.data, key.len) : NULL;
	return TIDE_OK;
}

int session_redrive_start(struct session *s, struct queue *q,
			  const struct redrive_spec *spec, struct reply *r,
			  struct error *err)
{
	struct redriving *job;
	int rc;

	if (s->broker->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (spec->is_routed && spec->to.data)
		return error_set(err, TIDE_ESYNTAX,
				 "routed goes by the exchange where they came from, and "
				 "to= elsewhere: give one of them");
	job = mem_zalloc(sizeof(*job));
	job->reply = r;
	job->redrive.max = spec->max;
	job->redrive.is_routed = spec->is_routed;
	job->redrive.on_end = on_redriven;
	subject_copy(&job->redrive.subject, &s->subject);
	rc = msg_match_init(&job->redrive.match, spec->match, err);
	if (rc == TIDE_OK)
		rc = read_target(s, spec->to, &job->redrive, err);
	if (rc == TIDE_OK) {
		redrive_start(&job->redrive, q);
		return TIDE_OK;
	}
	msg_match_deinit(&job->redrive.match);
	subject_deinit(&job->redrive.subject);
	mem_free(job);
	return rc;
}
