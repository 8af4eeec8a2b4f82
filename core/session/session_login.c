/* The identity of a session: logins, scripts of connect/, and what ends when rights
 * become fewer.
 */
#include <stdio.h>
#include "base/mem.h"
#include "broker/route.h"
#include "service_events.h"
#include "session_private.h"
#include "service_users.h"
#include "access/network.h"
#include "host/log.h"
#include "rules/engine/auth.h"
#include "broker/group_settle.h"
#include "broker/settle.h"
#include "base/container.h"
#include "base/decimal.h"

/* HELLO: who a session is. */

/* A login under way. The session is sent no further request meanwhile. */
struct login_job {
	struct session *session;
	struct login_attempt *attempt;
	struct reply *reply;
	struct session_login login; /* of its texts vhost and user are kept, and ours */
};

static void end(struct session *s)
{
	struct login_job *job = s->logging_in;

	s->logging_in = NULL;
	mem_free((char *)job->login.vhost.data);
	mem_free((char *)job->login.user.data);
	mem_free(job);
}

static int check_vhost(const struct session *s, struct slice vhost, struct error *err)
{
	if (session_access_may_enter(s, vhost))
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "user '%s' may not enter vhost '%" SLICE_FMT "'",
			 s->subject.user->name, SLICE_ARG(vhost));
}

static struct slice choose_vhost(const struct session *s, const struct session_login *l)
{
	const struct user *u = s->subject.user;

	if (!l->is_any_vhost || session_access_may_enter(s, l->vhost) || !u->grants)
		return l->vhost;
	return slice_from(u->grants->vhost);
}

/* The scripts of connect/ are asked; what they choose is in `d`. */
static int ask_scripts(struct session *s, const struct session_login *l,
		       struct slice vhost, struct connect_decision *d, struct error *err)
{
	struct session_peer peer;
	struct auth_login client;
	struct step step = { .kind = STEP_ASK,
			     .script = SCRIPT_CONNECT,
			     .client = &client,
			     .admission = d };
	int rc;

	s->ops->facts(s->ctx, &peer);
	client = (struct auth_login){
		.user = s->subject.user ? slice_from(s->subject.user->name) : l->user,
		.name = slice_from(s->name),
		.vhost = vhost,
		.address = network_host(peer.address),
		.certificate = slice_from(peer.certificate),
		.protocol = peer.protocol,
		.is_tls = peer.is_tls,
		.is_local = peer.is_local,
	};
	step_tell(&s->broker->followers, &step);
	client.context = step.context;
	rc = auth_connect(s->broker->engine, &client, d, err);
	step.kind = STEP_ANSWERED;
	step.error = rc < 0 ? err : NULL;
	step_tell(&s->broker->followers, &step);
	if (!d->is_refused)
		return TIDE_OK;
	log_warn("login as '%" SLICE_FMT "' from %s refused: %s (%s)",
		 SLICE_ARG(client.user.len ? client.user : SLICE("-")),
		 peer.address ? peer.address : "-", rc < 0 ? err->text : d->reason,
		 d->file);
	return error_set(err, TIDE_EDENIED, "%s", d->reason);
}

/* Of this connection alone. */
static void apply(struct session *s, const struct connect_decision *d)
{
	const struct user_limits limits = { .channels = d->limits.channels,
					    .publish_rate = d->limits.publish_rate,
					    .publish_bytes = d->limits.publish_bytes };

	if (d->name[0])
		session_set_name(s, slice_from(d->name));
	if (d->has_limits || s->of_connection)
		session_allowance_limit(s, d->has_limits ? &limits : NULL);
}

/* A vhost is made for who is sent there by a grant or by a script of connect/: somebody
 * has named it on purpose. Nobody makes one by a wrong name.
 *
 * @param is_chosen  a script has chosen it */
static int enter_vhost(struct session *s, const struct session_login *l, bool is_chosen,
		       struct slice vhost, struct error *err)
{
	const struct user *u = s->subject.user;
	bool is_named = is_chosen || (u && user_grant_find(u, vhost));
	int rc = vhost_check_name(vhost, err);

	if (rc == TIDE_OK)
		rc = session_check_cell(s, vhost, err);
	if (rc == TIDE_OK && !session_has_vhost(s, vhost) &&
	    (!is_named || (l->must_exist && !l->is_any_vhost)))
		return session_missing_vhost(s, vhost, err);
	return rc == TIDE_OK ? session_set_vhost(s, vhost, err) : rc;
}

static int enter(struct session *s, const struct session_login *l, struct error *err)
{
	bool has_scripts =
		!s->broker->config.is_model && broker_has_hook(s->broker, SCRIPT_CONNECT);
	struct slice vhost = choose_vhost(s, l);
	struct slice wanted = vhost.data ? vhost : vhost_slice(s->vhost);
	struct connect_decision d = { 0 };
	struct error elsewhere;
	int rc = check_vhost(s, wanted, err);

	/* Whoever needs none is in none. */
	s->is_visitor = false;
	if (rc == TIDE_OK && session_check_cell(s, wanted, &elsewhere) < 0) {
		s->is_visitor = l->is_any_vhost;
		if (!l->is_any_vhost)
			rc = (*err = elsewhere).code;
		vhost = (struct slice){ NULL, 0 };
	}
	if (rc == TIDE_OK && has_scripts)
		rc = vhost_check_name(wanted, err);
	if (rc == TIDE_OK && has_scripts)
		rc = ask_scripts(s, l, wanted, &d, err);
	if (rc == TIDE_OK && d.vhost[0]) {
		s->is_visitor = false;
		vhost = slice_from(d.vhost);
		rc = check_vhost(s, vhost, err);
	}
	if (rc == TIDE_OK && vhost.data)
		rc = enter_vhost(s, l, d.vhost[0] != 0, vhost, err);
	if (rc == TIDE_OK)
		apply(s, &d);
	s->has_entered = rc == TIDE_OK;
	return rc;
}

static void act_as(struct session *s, struct user *u)
{
	subject_set_user(&s->subject, u);
	s->exchange_version = 0;
}

static void log_out(struct session *s)
{
	act_as(s, NULL);
	session_allowance_logout(s);
	mem_free(s->user);
	s->user = NULL;
	s->user_len = 0;
}

void session_login_as(struct session *s, struct user *u)
{
	act_as(s, u);
	session_set_user(s, slice_from(u->name));
}

static void on_decided(void *ctx, struct user *user, const struct error *refusal)
{
	struct login_job *job = ctx;
	struct session *s = job->session;
	struct session_login login = job->login;
	struct reply *r = job->reply;
	struct error err;
	int rc = TIDE_OK;

	if (user) {
		session_login_as(s, user);
		rc = login.is_user_alone ? TIDE_OK : enter(s, &login, &err);
		if (rc == TIDE_OK)
			rc = session_allowance_login(s, user, &err);
	} else {
		err = *refusal;
		rc = err.code;
	}
	s->is_shut_out = user && rc < 0;
	if (rc < 0) {
		service_events_refused(s, login.user, &err);
		log_out(s);
	} else {
		service_events_opened(s);
	}
	session_trace_recheck(s);
	user_unref(user);
	end(s);
	login.on_done(login.ctx, r, rc < 0 ? &err : NULL);
	s->ops->on_progress(s->ctx);
}

/* The longest token that scripts may take for a password. */
#define TOKEN_MAX 16384

static int check_password(const struct session *s, struct slice password,
			  struct error *err)
{
	if (password.len <= PASSWORD_LEN_MAX || !service_users_scripts(s->service))
		return password_check(password, err);
	if (password.len <= TOKEN_MAX)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX, "a password has 1 to %d bytes", TOKEN_MAX);
}

static int check_names(const struct session *s, const struct session_login *l,
		       struct error *err)
{
	if (l->user.data && !slice_is_name(l->user))
		return error_set(err, TIDE_ESYNTAX,
				 "user must be 1-%d bytes of UTF-8 without white space "
				 "and control characters",
				 NAME_LEN_MAX);
	if (l->password.data && check_password(s, l->password, err) < 0)
		return err->code;
	return TIDE_OK;
}

/* The user is a label then, which messages carry. */
static int enter_open(struct session *s, const struct session_login *l, struct reply *r,
		      struct error *err)
{
	int rc = l->is_user_alone ? TIDE_OK : enter(s, l, err);

	if (rc < 0)
		return rc;
	if (l->user.data)
		session_set_user(s, l->user);
	service_events_opened(s);
	l->on_done(l->ctx, r, NULL);
	return TIDE_OK;
}

static int refuse_stranger(struct error *err)
{
	return error_set(err, TIDE_EDENIED,
			 "log in first: HELLO user=<name> pass=<password>");
}

static void start(struct session *s, const struct session_login *l, struct reply *r,
		  const struct session_peer *peer)
{
	struct service *service = s->service;
	struct login_job *job = mem_zalloc(sizeof(*job));
	const struct login_spec spec = {
		.user = l->user,
		.password = l->password,
		.vhost = l->vhost.data ? l->vhost : vhost_slice(s->vhost),
		.name = slice_from(s->name),
		.address = peer->address,
		.protocol = peer->protocol,
		.certificate = peer->certificate,
		.is_certificate_user = peer->is_certificate_user,
		.is_local = peer->is_local,
		.is_tls = peer->is_tls,
		.scripts = service_users_scripts(service),
		.on_done = on_decided,
		.ctx = job,
	};
	struct login_attempt *attempt;

	job->session = s;
	job->reply = r;
	job->login = *l;
	job->login.vhost.data =
		l->vhost.data ? mem_strndup(l->vhost.data, l->vhost.len) : NULL;
	job->login.user.data =
		l->user.data ? mem_strndup(l->user.data, l->user.len) : NULL;
	s->logging_in = job;
	attempt = login_start(&service->login, &spec, service->broker->mono_ms);
	if (attempt)
		job->attempt = attempt;
}

int session_login_start(struct session *s, const struct session_login *l, struct reply *r,
			struct error *err)
{
	struct session_peer peer;
	int rc = check_names(s, l, err);

	if (rc < 0)
		return rc;
	if (service_users_is_open(s->service))
		return enter_open(s, l, r, err);
	s->ops->facts(s->ctx, &peer);
	if (!l->user.data && !l->password.data && !peer.certificate)
		return refuse_stranger(err);
	start(s, l, r, &peer);
	return TIDE_OK;
}

int session_login_enter(struct session *s, struct slice vhost, struct error *err)
{
	const struct session_login l = {
		.user = { s->user, s->user_len },
		.vhost = vhost,
	};

	return enter(s, &l, err);
}

int session_login_check(const struct session *s, struct error *err)
{
	return session_is_stranger(s) ? refuse_stranger(err) : TIDE_OK;
}

int session_login_admit(struct session *s, struct error *err)
{
	static const struct session_login nobody;
	int rc = session_login_check(s, err);

	if (rc < 0 || s->has_entered)
		return rc;
	if (s->unwelcome)
		return error_set(err, TIDE_EDENIED, "%s", s->unwelcome);
	rc = enter(s, &nobody, err);
	if (rc < 0)
		s->unwelcome = mem_strdup(err->text);
	else
		service_events_opened(s);
	return rc;
}

void session_login_cancel(struct session *s)
{
	static const struct error gone = { TIDE_ESHUTDOWN, "the connection has ended" };
	struct login_job *job = s->logging_in;
	struct reply *r;

	if (!job)
		return;
	r = job->reply;
	login_cancel(job->attempt);
	end(s);
	reply_error(r, &gone);
}

/* The rights of a session's user have perhaps become fewer: what it has begun by those
 * that are gone ends. */

/* The last queue that was asked about: most of what a channel holds is of one. */
struct read_check {
	struct session *session;
	const struct queue *queue;
	struct error denied; /* code < 0: it may not be read */
};

static bool may_read(struct read_check *r, const struct queue *q)
{
	enum subject_kind kind = q->topic ? SUBJECT_TOPIC : SUBJECT_QUEUE;

	if (r->queue != q)
		r->denied.code = session_access_check(r->session, USER_READ, kind,
						      queue_slice(q), &r->denied);
	r->queue = q;
	return r->denied.code == TIDE_OK;
}

static void cancel_subscriptions(struct channel *ch, struct read_check *r)
{
	const struct session *s = ch->session;
	struct subscription *sub, *next;
	char words[NAME_LEN_MAX + 16];

	for (sub = TAILQ_FIRST(&ch->subscriptions); sub; sub = next) {
		next = TAILQ_NEXT(sub, channel_link);
		if (!sub->consumer.queue || may_read(r, sub->consumer.queue))
			continue;
		snprintf(words, sizeof(words), "%s denied", sub->sid);
		s->ops->on_event(s->ctx, ch->number, "cancelled", words);
		subscription_destroy(sub);
	}
}

static bool may_wait(const struct fetch *f, struct read_check *r)
{
	for (unsigned i = 0; i < f->getter.consumer_count; i++)
		if (f->consumers[i].queue && !may_read(r, f->consumers[i].queue))
			return false;
	return true;
}

static void refuse_fetches(struct channel *ch, struct read_check *r)
{
	struct fetch *f, *next;

	for (f = TAILQ_FIRST(&ch->fetches); f; f = next) {
		next = TAILQ_NEXT(f, channel_link);
		if (!may_wait(f, r))
			fetch_refuse(f, &r->denied);
	}
}

/* Unpunished: its consumer is not at fault, and nor is the message. */
static void return_entries(struct channel *ch, struct read_check *r)
{
	uint64_t *tags = NULL;
	size_t count = 0;

	for (struct entry *e = held_from(&ch->held, 0); e;
	     e = held_from(&ch->held, e->tag + 1)) {
		if (e->flags & LIES_IN_COMMIT || may_read(r, entry_queue(e)))
			continue;
		if (!tags)
			tags = mem_alloc(ch->held.count * sizeof(*tags));
		tags[count++] = e->tag;
	}
	/* From the last to the first, so that each enters at the queue's front. */
	while (count > 0)
		settle_entry(held_from(&ch->held, tags[--count]), FATE_RETURNED, 0);
	mem_free(tags);
}

static void return_runs(struct channel *ch, struct read_check *r)
{
	struct run_tag_tree *runs = &ch->holder.runs;
	struct run *run = run_from_tag(runs, 0);

	while (run) {
		uint64_t next = run->first_tag + run->count;

		if (!may_read(r, group_settle_queue(run)))
			group_settle_return(run, run->first_tag, run->count,
					    FATE_RETURNED);
		run = run_from_tag(runs, next);
	}
}

static bool may_hold_lock(void *ctx, struct slice name, struct error *err)
{
	return session_access_check(ctx, USER_WRITE, SUBJECT_LOCK, name, err) == TIDE_OK;
}

static void recheck_channel(struct channel *ch, struct read_check *r)
{
	cancel_subscriptions(ch, r);
	refuse_fetches(ch, r);
	return_entries(ch, r);
	return_runs(ch, r);
	lock_holder_recheck(&ch->locks, may_hold_lock, ch->session);
}

void session_recheck(struct session *s)
{
	struct read_check reading = { .session = s };
	const struct user *user = s->subject.user;
	struct channel *ch, *next;
	char why[NAME_LEN_MAX + 64];

	s->exchange_version = 0;
	session_allowance_note(s);
	if (!user)
		return; /* it may do all, or was killed */
	if (user->is_deleted) {
		snprintf(why, sizeof(why), "denied user '%s' was deleted", user->name);
		s->ops->on_kill(s->ctx, why);
		return;
	}
	session_trace_recheck(s);
	recheck_channel(&s->zero, &reading);
	HASH_ITER (hh, s->channels, ch, next)
		recheck_channel(ch, &reading);
}
