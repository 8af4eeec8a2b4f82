/* What operators ask of a broker at work: KILL, DRAIN, EXPLAIN, and who they are.
 */
#include <inttypes.h>
#include <stdio.h>

#include "broker/decide.h"
#include "follow/explanation.h"
#include "host/log.h"
#include "service_users.h"
#include "session_private.h"

int session_operate_kill(struct session *s, const struct operate_spec *spec,
			 struct reply *r, struct error *err)
{
	uint64_t number = spec->number;
	struct session *peer;
	char who[SESSION_AUTHOR_MAX], why[SESSION_AUTHOR_MAX + 32];

	TAILQ_FOREACH (peer, &s->service->sessions, link)
		if (peer->number == number)
			break;
	if (!peer)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no connection %" PRIu64
				 "; see LIST connections",
				 number);
	session_format_author(s, who);
	log_write_each(LOG_INFO, "connection %" PRIu64 " is killed by %s", number, who);
	snprintf(why, sizeof(why), "denied killed by %s", who);
	reply_ok(r);
	peer->ops->on_kill(peer->ctx, why);
	return TIDE_OK;
}

int session_operate_drain(struct session *s, const struct operate_spec *spec,
			  struct reply *r, struct error *err)
{
	char who[SESSION_AUTHOR_MAX];

	session_format_author(s, who);
	service_refuse_publishes(s->service, spec->is_on, who);
	reply_ok(r);
	return TIDE_OK;
}

/* ---- whoami ---- */

int session_whoami(struct session *s, struct reply *r, struct error *err)
{
	struct session_facts facts = session_facts(s);
	const struct user *u = s->subject.user;
	struct json j;

	reply_json(r, &j);
	json_object_begin(&j);
	json_member_text(&j, "user", s->user ? s->user : "");
	json_member_array(&j, "tags");
	/* While nobody has to log in, whoever comes may do all. */
	if (u ? user_has_tag(u, USER_MONITOR) : subject_is_free(&s->subject))
		json_text(&j, user_tag_name(USER_MONITOR));
	if (u ? user_has_tag(u, USER_ADMIN) : subject_is_free(&s->subject))
		json_text(&j, user_tag_name(USER_ADMIN));
	json_array_end(&j);
	json_member_bool(&j, "open", service_users_is_open(s->service));
	json_member_string(&j, "vhost", facts.vhost);
	json_member_int(&j, "connection", (int64_t)facts.number);
	json_member_text(&j, "version", TIDE_VERSION);
	json_member_int(&j, "node", facts.node);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

/* ---- EXPLAIN ---- */

static void answer(struct explanation *x, const struct decide_spec *spec,
		   const struct decision *d, const struct error *failure, struct reply *r)
{
	struct json j;

	reply_json(r, &j);
	json_object_begin(&j);
	explanation_write(x, spec, d, failure, &j);
	json_object_end(&j);
	reply_data(r);
}

int session_explain(struct session *s, const struct publish_spec *spec, struct reply *r,
		    struct error *err)
{
	struct explanation *x;
	struct decision d;
	struct decision_context context = { .has_random = true, .is_dry = true };
	struct decide_spec what = { .rules = &s->broker->active_rules,
				    .context = &context,
				    .vhost = s->vhost,
				    .subject = &s->subject,
				    .now_ms = s->broker->now_ms };
	struct error denied;
	bool is_denied;
	int rc = session_access_check_monitor(s, "EXPLAIN", err);

	if (rc == TIDE_OK)
		rc = session_publish_make(s, spec, &what.msg, err);
	if (rc < 0)
		return rc;
	x = explanation_create();
	explanation_watch(x, &what, &context);
	/* It is decided all the same. */
	is_denied = session_access_check_write(s, spec->exchange, spec->key, &denied) < 0;
	context.random_state = engine_random_state(s->broker->engine);
	rc = decide(&d, &what, err);
	if (rc == TIDE_OK)
		err->code = TIDE_OK;
	if (rc == TIDE_OK || rc == TIDE_EREJECTED || rc == TIDE_ERULE ||
	    rc == TIDE_EDENIED) {
		answer(x, &what, &d, is_denied ? &denied : err, r);
		rc = TIDE_OK;
	}
	decide_deinit(&d);
	explanation_destroy(x);
	msg_unref(what.msg);
	return rc;
}
