/* REDRIVE: dead letters go back. */
#include "base/container.h"
#include "base/mem.h"
#include "broker/redrive.h"
#include "session_private.h"

struct redriving {
	struct redrive redrive;
	struct reply *reply;
};

static void on_end(struct redrive *redrive)
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

int session_redrive_start(struct session *s, const struct redrive_spec *spec,
			  struct reply *r, struct error *err)
{
	struct redriving *job;
	struct queue *q;
	int rc = session_queue_usable(s, USER_READ, spec->queue, &q, err);

	if (rc < 0)
		return rc;
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
	job->redrive.on_end = on_end;
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
