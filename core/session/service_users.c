#include "service_users.h"
#include "host/log.h"
#include "rules/engine/auth.h"
#include "schedule/scheduler.h"
#include "session_private.h"

static void on_change(void *ctx, struct user *changed);

void service_users_init(struct service *s)
{
	struct users *users = &s->broker->users;

	users->on_change = on_change;
	users->ctx = s;
	password_work_init(&s->password_work, s->loop);
	login_init(&s->login, users, &s->password_work);
	user_change_init(&s->user_changes, users, &s->password_work);
	allowance_init(&s->allowances);
	s->was_open = true;
	s->users_seen = UINT64_MAX;
}

void service_users_close(struct service *s, void (*on_closed)(void *ctx))
{
	s->user_changes.is_closing = true;
	password_work_close(&s->password_work, on_closed, s);
}

void service_users_deinit(struct service *s)
{
	user_change_deinit(&s->user_changes);
	login_deinit(&s->login);
	allowance_deinit(&s->allowances);
	heap_deinit(&s->throttled);
}

bool service_users_has_any(const struct service *s)
{
	return users_count(&s->broker->users) > 0 || service_users_scripts(s);
}

bool service_users_is_open(const struct service *s)
{
	const struct broker_config *c = &s->broker->config;

	return c->is_model || (!c->must_log_in && !service_users_has_any(s));
}

struct engine *service_users_scripts(const struct service *s)
{
	struct engine *e = s->broker->engine;

	return e && auth_has_authenticate(e) ? e : NULL;
}

void service_users_end_stranger(struct session *s)
{
	s->ops->on_kill(s->ctx, "denied from now on everybody has to log in");
}

/* End the sessions that came while no login was required. */
static void end_strangers(struct service *s)
{
	struct session *session, *next;

	for (session = TAILQ_FIRST(&s->sessions); session; session = next) {
		next = TAILQ_NEXT(session, link);
		if (!session->subject.user && !session->is_founder)
			service_users_end_stranger(session);
	}
}

void service_users_check_open(struct service *s)
{
	bool is_open = service_users_is_open(s);

	s->broker->subjects.must_log_in = !is_open;
	if (s->was_open && !is_open)
		end_strangers(s);
	if (s->was_open != is_open)
		log_info("%s", is_open ? "nobody has to log in: no user is defined"
				       : "from now on everybody has to log in");
	s->was_open = is_open;
}

static void on_change(void *ctx, struct user *changed)
{
	struct service *s = ctx;

	allowance_change(&s->allowances, slice_from(changed->name), &changed->limits);
	/* In the next turn: who deletes himself is told first that it is done. */
	service_users_recheck(s);
	service_users_check_open(s);
}

void service_users_turn(struct service *s)
{
	/* Not in on_reload: who asked for the reload is told first. */
	if (s->broker->is_started)
		service_users_check_open(s);
	login_turn(&s->login, s->broker->mono_ms);
}

int64_t service_users_due_ms(const struct service *s)
{
	const struct broker *b = s->broker;
	int64_t due_ms = login_due_ms(&s->login);

	return due_ms ? b->now_ms + (due_ms - b->mono_ms) : 0;
}

/* A permission that a script has given holds no longer than this: it may go by the
 * time of day. */
#define SCRIPTS_MS 10000

static void begin(struct service *s)
{
	s->broker->subjects.version++;
	s->recheck_ms = s->broker->now_ms;
	s->recheck = TAILQ_FIRST(&s->sessions);
}

void service_users_recheck(struct service *s)
{
	struct engine *e = s->broker->engine;

	s->broker->subjects.scripts = e && auth_has_authorize(e) ? e : NULL;
	/* No publish goes by what was found before. */
	s->broker->route_version++;
	begin(s);
}

static bool is_due(const struct service *s)
{
	int64_t age_ms = s->broker->now_ms - s->recheck_ms;

	/* Or the clock was set back. */
	return s->broker->subjects.scripts && (age_ms >= SCRIPTS_MS || age_ms < 0);
}

void service_users_recheck_turn(struct service *s)
{
	struct session *session;

	if (!s->recheck && is_due(s))
		begin(s);
	while ((session = s->recheck) != NULL) {
		s->recheck = TAILQ_NEXT(session, link);
		session_recheck(session);
		if (pace_is_spent(&s->broker->pace, false))
			return;
	}
}

int64_t service_users_recheck_due_ms(const struct service *s)
{
	if (s->recheck)
		return s->broker->now_ms;
	return s->broker->subjects.scripts ? s->recheck_ms + SCRIPTS_MS : 0;
}

/* With cells any owner writes users; the others read them when they see that. */

#define FOLLOW_REST_MS 1000

static void take_user(struct users *us, const struct store_field *f)
{
	struct user *old = users_find(us, f->name), *u;
	struct buf text = { 0 };
	struct error err;
	bool is_same;

	if (old && !old->unreadable)
		user_format(old, &text);
	is_same = buf_len(&text) > 0 && slice_is_equal(buf_slice(&text), f->value);
	buf_deinit(&text);
	if (is_same)
		return;
	if (user_parse(f->name, f->value, &u, &err) == TIDE_OK) {
		users_put_take(us, u);
		return;
	}
	if (old && old->unreadable)
		return;
	users_remove(us, f->name);
	if (users_restore(us, f->name, f->value, &err) < 0)
		log_error("user '%" SLICE_FMT "' cannot log in: its value in Redis %s",
			  SLICE_ARG(f->name), err.text);
}

static bool is_named(const struct user *u, const struct store_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (slice_is(fields[i].name, u->name))
			return true;
	return false;
}

static void on_users(void *ctx, int status, const char *text,
		     const struct store_field *fields, size_t count)
{
	struct service *s = ctx;
	struct users *us = &s->broker->users;
	struct user *u, *next;

	s->is_reading_users = false;
	if (status < 0 || s->broker->is_closing) {
		s->users_rest_ms = s->broker->mono_ms + FOLLOW_REST_MS;
		return;
	}
	s->users_seen = s->users_asked;
	for (size_t i = 0; i < count; i++)
		take_user(us, &fields[i]);
	HASH_ITER (hh, us->by_name, u, next)
		if (!is_named(u, fields, count))
			users_remove(us, slice_from(u->name));
}

static void on_vhost(void *ctx, const struct store_definition *d)
{
	struct service *s = ctx;
	struct error ignored;
	struct vhost *v;

	/* One that was deleted since it was asked for stays so. */
	if (vhost_recover(s->broker, d->name, &v, &ignored) == TIDE_OK && !v->is_deleted)
		v->is_kept = true;
}

static void on_vhosts(void *ctx, int status, const char *text)
{
	struct service *s = ctx;

	s->is_reading_vhosts = false;
	if (status < 0 || s->broker->is_closing)
		return;
	s->places_seen = s->places_asked;
	scheduler_update(s->scheduler);
}

/* The owner of another cell has placed a vhost in ours, or we have given one away. */
static void follow_places(struct service *s)
{
	s->places_asked = store_changes(s->broker->store, STORE_CHANGE_PLACES);
	if (s->is_reading_vhosts || s->places_asked == s->places_seen)
		return;
	s->is_reading_vhosts = true;
	store_vhosts_read(s->broker->store, on_vhost, on_vhosts, s);
}

void service_users_follow(struct service *s)
{
	const struct broker *b = s->broker;

	if (!b->env.store || store_cells(b->store) == 1 || !b->is_started ||
	    b->is_closing)
		return;
	follow_places(s);
	if (s->is_reading_users || b->mono_ms < s->users_rest_ms)
		return;
	s->users_asked = store_changes(b->store, STORE_CHANGE_USERS);
	if (s->users_asked == s->users_seen)
		return;
	s->is_reading_users = true;
	store_document_read(b->store, "users", on_users, s);
}
