/* Requests of operators to a broker at work: KILL, DRAIN, EXPLAIN, and who they are. */
#include <inttypes.h>
#include <stdio.h>

#include "broker/decide.h"
#include "follow/explanation.h"
#include "host/log.h"
#include "service_users.h"
#include "session_private.h"
#include "base/topic_pattern.h"
#include "broker/canary.h"
#include "access/user_change.h"
#include "base/mem.h"

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

/* Whoami. */

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
	if (facts.cells > 1) {
		json_member_int(&j, "cell", facts.cell);
		json_member_int(&j, "cells", facts.cells);
	}
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

/* EXPLAIN. */

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
	/* EXPLAIN decides all the same. */
	is_denied = session_access_check_write(s, spec->exchange, spec->key, &denied) < 0;
	context.random_state = engine_random_state(s->broker->engine);
	if (s->broker->canary)
		canary_choose(s->broker->canary, &what);
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

/* LOCK, UNLOCK and CHECK. */

#define TTL_DEFAULT_MS 30000

int session_lock_take(struct channel *ch, const struct lock_request *request,
		      struct reply *r, struct error *err)
{
	const struct lock_spec spec = {
		.name = request->name,
		.ttl_ms = request->ttl_ms || request->token ? request->ttl_ms
							    : TTL_DEFAULT_MS,
		.wait_ms = request->wait_ms,
		.is_shared = request->is_shared,
		.token = request->token,
		.holder = &ch->locks,
		.waiter = &r->waiter,
		.granted = &r->count,
	};

	if (session_access_check(ch->session, USER_WRITE, SUBJECT_LOCK, request->name,
				 err) < 0)
		return err->code;
	r->kind = REPLY_COUNT;
	return lock_take(ch->session->vhost, &spec, err);
}

int session_lock_release(struct session *s, const struct lock_request *lock,
			 struct reply *r, struct error *err)
{
	int rc = session_access_check(s, USER_WRITE, SUBJECT_LOCK, lock->name, err);

	if (rc == TIDE_OK)
		rc = lock_release(s->vhost, lock->name, lock->token, &r->waiter, err);
	if (rc == TIDE_OK)
		reply_ok(r);
	return rc;
}

int session_lock_check(struct session *s, const struct lock_request *lock,
		       struct reply *r, struct error *err)
{
	int rc = session_access_check(s, USER_READ, SUBJECT_LOCK, lock->name, err);

	if (rc == TIDE_OK)
		rc = lock_check(s->vhost, lock->name, lock->token, err);
	if (rc == TIDE_OK)
		reply_ok(r);
	return rc;
}

/* USER: users are added, changed, deleted and listed. */

/* The session may end before the change is done: the change goes on. */
struct user_job {
	struct service *service;
	uint64_t session;
	struct reply *reply;
	enum user_edit edit;
	char who[SESSION_AUTHOR_MAX];
};

static const struct {
	enum user_change_kind kind;
	const char *done; /* for the log */
	enum event_name event;
} edits[] = {
	[USER_EDIT_ADD] = { USER_CHANGE_ADD, "was added", EVENT_USER_DECLARED },
	[USER_EDIT_PASSWORD] = { USER_CHANGE_PASSWORD, "has a new password",
				 EVENT_USER_CHANGED },
	[USER_EDIT_DELETE] = { USER_CHANGE_DELETE, "was deleted", EVENT_USER_DELETED },
	[USER_EDIT_GRANT] = { USER_CHANGE_GRANT, "was granted permissions",
			      EVENT_USER_CHANGED },
	[USER_EDIT_REVOKE] = { USER_CHANGE_REVOKE, "has permissions no more",
			       EVENT_USER_CHANGED },
	[USER_EDIT_SET] = { USER_CHANGE_SET, "was changed", EVENT_USER_CHANGED },
};

static struct session *find_session(const struct user_job *job)
{
	struct session *s;

	TAILQ_FOREACH (s, &job->service->sessions, link)
		if (s->number == job->session)
			return s;
	return NULL;
}

static void tell_event(const struct user_job *job, const struct user *user)
{
	enum event_name kind = edits[job->edit].event;
	struct slice name = slice_from(user->name), by = slice_from(job->who);

	if (kind == EVENT_USER_CHANGED)
		EVENT_TELL(job->service->broker, kind, name,
			   slice_from(edits[job->edit].done), by);
	else
		EVENT_TELL(job->service->broker, kind, name, by);
}

/* The author of the first user goes on as that one: otherwise he would be locked out. */
static void follow(struct session *s, struct user *user)
{
	struct error ignored;

	if (s && s->is_founder && user && !user->is_deleted) {
		session_login_as(s, user);
		/* The only user is not locked out by his own limits. */
		if (session_allowance_login(s, user, &ignored) < 0)
			session_allowance_logout(s);
	}
	if (s)
		s->is_founder = false;
}

/* Somebody else was the first: it was spared when the others were ended. */
static void end_stranger(const struct user_job *job)
{
	struct session *s = find_session(job);

	if (s && session_is_stranger(s))
		service_users_end_stranger(s);
}

static void on_done(void *ctx, struct user *user, int status, const char *text)
{
	struct user_job *job = ctx;
	struct error err;

	if (status != TIDE_ESHUTDOWN)
		follow(find_session(job), user);
	if (status < 0) {
		error_set(&err, status, "%s", text ? text : error_text(status));
		reply_error(job->reply, &err);
	} else {
		log_write_each(LOG_INFO, "user '%s' %s, by %s", user->name,
			       edits[job->edit].done, job->who);
		tell_event(job, user);
		reply_ok(job->reply);
	}
	if (status != TIDE_ESHUTDOWN)
		end_stranger(job);
	mem_free(job);
}

static void read_limits(const struct user_spec *spec, struct user_change_spec *out)
{
	for (unsigned i = 0; i < USER_SPEC_LIMITS; i++) {
		if (spec->limits[i] == USER_LIMIT_AS_IT_IS)
			continue;
		*user_limit(&out->limits, slice_from(user_limit_name(i))) =
			spec->limits[i];
		out->has_limit |= 1u << i;
	}
}

int session_user_edit(struct session *s, const struct user_spec *spec, struct reply *r,
		      struct error *err)
{
	struct user_change_spec change = {
		.kind = edits[spec->edit].kind,
		.name = spec->name,
		.password = spec->password,
		.tags = spec->tags,
		.vhost = spec->vhost,
		.patterns = { spec->configure, spec->write, spec->read },
		.author = s->subject.user,
		.on_done = on_done,
	};
	struct user_changes *changes = &s->service->user_changes;
	struct user_job *job;

	if (spec->password.data && password_check(spec->password, err) < 0)
		return err->code;
	if (spec->edit == USER_EDIT_ADD || spec->edit == USER_EDIT_SET)
		read_limits(spec, &change);
	job = mem_zalloc(sizeof(*job));
	job->service = s->service;
	job->session = s->number;
	job->reply = r;
	job->edit = spec->edit;
	session_format_author(s, job->who);
	change.ctx = job;
	changes->store = s->broker->env.store;
	changes->must_have_users =
		s->broker->config.must_log_in && !service_users_scripts(s->service);
	s->is_founder = !s->subject.user && spec->edit == USER_EDIT_ADD;
	user_change_start(changes, &change);
	return TIDE_OK;
}

/* List. */

static int by_name(const struct user *a, const struct user *b)
{
	return strcmp(a->name, b->name);
}

static int64_t count_sessions(const struct service *service, const struct user *u)
{
	const struct session *s;
	int64_t count = 0;

	TAILQ_FOREACH (s, &service->sessions, link)
		count += s->subject.user == u;
	return count;
}

int session_user_list(struct session *s, struct reply *r, struct error *err)
{
	struct user *u, *next;
	struct json j;

	reply_json(r, &j);
	json_array_begin(&j);
	HASH_SRT(hh, s->broker->users.by_name, by_name);
	HASH_ITER (hh, s->broker->users.by_name, u, next) {
		json_object_begin(&j);
		json_member_text(&j, "name", u->name);
		user_write(u, &j);
		json_member_bool(&j, "password", u->password != NULL);
		json_member_int(&j, "connections", count_sessions(s->service, u));
		if (u->unreadable)
			json_member_text(&j, "unreadable", u->unreadable);
		json_object_end(&j);
	}
	json_array_end(&j);
	r->count = HASH_COUNT(s->broker->users.by_name);
	reply_data(r);
	return TIDE_OK;
}
