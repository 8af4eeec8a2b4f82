/* USER: users are added, changed, deleted and listed. */
#include "access/user_change.h"
#include "base/mem.h"
#include "host/log.h"
#include "service_users.h"
#include "session_private.h"

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
} edits[] = {
	[USER_EDIT_ADD] = { USER_CHANGE_ADD, "was added" },
	[USER_EDIT_PASSWORD] = { USER_CHANGE_PASSWORD, "has a new password" },
	[USER_EDIT_DELETE] = { USER_CHANGE_DELETE, "was deleted" },
	[USER_EDIT_GRANT] = { USER_CHANGE_GRANT, "was granted permissions" },
	[USER_EDIT_REVOKE] = { USER_CHANGE_REVOKE, "has permissions no more" },
	[USER_EDIT_SET] = { USER_CHANGE_SET, "was changed" },
};

static struct session *find_session(const struct user_job *job)
{
	struct session *s;

	TAILQ_FOREACH (s, &job->service->sessions, link)
		if (s->number == job->session)
			return s;
	return NULL;
}

/* Who adds the first user goes on as that one: nobody else could. */
static void follow(struct session *s, struct user *user)
{
	struct error ignored;

	if (s && s->is_founder && user && !user->is_deleted) {
		session_login_as(s, user);
		/* He is the only one, and is not locked out by his own limits. */
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

/* ---- list */

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
