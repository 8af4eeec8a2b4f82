/* The permissions of a session's user, and what he learns of names that are not there. */
#include <stdio.h>
#include "base/mem.h"
#include "broker/route.h"
#include "session_private.h"
#include "service_users.h"
#include "access/network.h"
#include "host/log.h"
#include "rules/engine/auth.h"
#include "broker/group_settle.h"
#include "broker/settle.h"
#include "base/container.h"
#include "base/decimal.h"

/* Scripts are told where it comes from. */
static struct subject *subject_of(struct session *s)
{
	struct session_peer peer;

	if (!s->subject.address) {
		s->ops->facts(s->ctx, &peer);
		subject_set_address(&s->subject, peer.address);
	}
	return &s->subject;
}

int session_check_cell(const struct session *s, struct slice vhost, struct error *err)
{
	unsigned cells = service_net_cells(s->service),
		 cell = service_net_cell_of(s->service, vhost);

	if (cells == 1 || cell == service_net_cell(s->service))
		return TIDE_OK;
	return error_set(
		err, TIDE_EMISMATCH,
		"vhost '%.*s' is of cell %u of %u, and another broker owns that: "
		"name the vhost where the connection begins (HELLO vhost=, host "
		"of STOMP, ?vhost= of a URL), or the cell (HELLO cell=, ?cell=)",
		SLICE_HEAD(vhost, 64), cell, cells);
}

/* It was deleted under the session; or whoever came for the cell alone would write to a
 * vhost that is another's. */
static int check_vhost(const struct session *s, struct error *err)
{
	if (s->is_visitor)
		return session_check_cell(s, vhost_slice(s->vhost), err);
	if (!s->vhost->is_deleted)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "vhost '%s' was deleted while this connection worked in it: "
			 "connect again",
			 s->vhost->name);
}

int session_access_check(struct session *s, enum user_action action,
			 enum subject_kind kind, struct slice name, struct error *err)
{
	if (check_vhost(s, err) < 0)
		return err->code;
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return subject_ask(subject_of(s), action, kind, name, err);
}

int session_access_check_queue(struct session *s, enum user_action action,
			       struct slice name, struct error *err)
{
	if (check_vhost(s, err) < 0)
		return err->code;
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return subject_ask(subject_of(s), action, route_subject_kind(s->vhost, name),
			   name, err);
}

int session_access_check_write(struct session *s, struct slice exchange, struct slice key,
			       struct error *err)
{
	if (check_vhost(s, err) < 0)
		return err->code;
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return route_check_access(subject_of(s), s->vhost, exchange, key, err);
}

int session_access_check_admin(const struct session *s, const char *what,
			       struct error *err)
{
	return subject_check_tag(&s->subject, USER_ADMIN, what, err);
}

int session_access_check_monitor(const struct session *s, const char *what,
				 struct error *err)
{
	return subject_check_tag(&s->subject, USER_MONITOR, what, err);
}

/* A user with a tag may look at all vhosts. */
bool session_access_may_enter(const struct session *s, struct slice vhost)
{
	const struct user *u = s->subject.user;

	return !u || u->tags || user_grant_find(u, vhost);
}

/* Names that are not there. */

#define NAMED_MAX 5 /* vhosts that an error names */
#define NAMED_BYTES 200

static bool may_use(struct subject *s, enum subject_kind kind, struct slice name)
{
	static const enum user_action actions[] = { USER_WRITE, USER_READ,
						    USER_CONFIGURE };
	struct error ignored;

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (subject_ask(s, actions[i], kind, name, &ignored) == TIDE_OK)
			return true;
	return false;
}

/* A user without any permission for the name does not learn that it is there. */
static bool may_know(const struct session *s, const struct vhost *v,
		     enum subject_kind kind, struct slice name)
{
	struct subject there;
	bool may;

	if (subject_is_free(&s->subject))
		return true;
	if (!s->subject.user || !session_access_may_enter(s, vhost_slice(v)))
		return false;
	if (s->subject.user->tags && !s->subject.user->is_deleted)
		return true;
	subject_copy(&there, &s->subject);
	subject_set_vhost(&there, vhost_slice(v));
	may = may_use(&there, kind, name);
	subject_deinit(&there);
	return may;
}

static bool has_thing(struct vhost *v, enum subject_kind kind, struct slice name)
{
	const struct queue *q;

	if (kind == SUBJECT_EXCHANGE)
		return exchange_find(v, name) != NULL;
	q = queue_find(v, name);
	return q && (kind == SUBJECT_QUEUE || q->topic);
}

int session_missing(const struct session *s, enum subject_kind kind, struct slice name,
		    struct error *err)
{
	static const char *const kinds[] = { [SUBJECT_EXCHANGE] = "exchange",
					     [SUBJECT_QUEUE] = "queue",
					     [SUBJECT_TOPIC] = "topic" };

	int rc = vhost_refuse(s->vhost, kinds[kind], name, err);

	for (struct vhost *v = s->broker->vhosts; v; v = v->hh.next)
		if (v != s->vhost && has_thing(v, kind, name) &&
		    may_know(s, v, kind, name))
			return error_set(err, rc, "%s; vhost '%s' has one", err->text,
					 v->name);
	return rc;
}

/* "'/', 'shop' and 3 more" */
static void name_vhosts(const struct session *s, struct buf *out)
{
	unsigned named = 0, others = 0;

	for (const struct vhost *v = s->broker->vhosts; v; v = v->hh.next) {
		if (v->is_deleted || !session_access_may_enter(s, vhost_slice(v)))
			continue;
		if (named == NAMED_MAX || buf_len(out) + v->name_len > NAMED_BYTES) {
			others++;
			continue;
		}
		buf_printf(out, "%s'%s'", named++ ? ", " : "", v->name);
	}
	if (others)
		buf_printf(out, " and %u more", others);
}

int session_missing_vhost(const struct session *s, struct slice name, struct error *err)
{
	struct buf names = { 0 };

	name_vhosts(s, &names);
	error_set(err, TIDE_ENOTFOUND,
		  "there is no vhost '%.*s', only %s; DECLARE vhost %.*s makes it",
		  SLICE_HEAD(name, 64), buf_len(&names) ? buf_cstr(&names) : "others",
		  SLICE_HEAD(name, 64));
	buf_deinit(&names);
	return err->code;
}

/* The use that a session makes of the allowances of its user and its address. */

/* Rates. */

/* Until what was published is made good. */
static void hold(struct session *s)
{
	int64_t mono_ms = s->broker->mono_ms;
	struct allowance *const all[] = { s->of_user, s->of_address, s->of_connection };
	int64_t wait_ms = 0;

	for (int i = 0; i < 3; i++) {
		int64_t own_ms = allowance_wait_ms(all[i], mono_ms);

		if (own_ms > wait_ms)
			wait_ms = own_ms;
	}
	if (wait_ms)
		heap_set(&s->service->throttled, &s->throttle_node, mono_ms + wait_ms);
	else
		heap_remove(&s->service->throttled, &s->throttle_node);
}

void session_allowance_throttle(struct session *s)
{
	s->is_throttled = true;
}

void session_allowance_note(struct session *s)
{
	s->is_metered = allowance_is_metered(s->of_user) ||
			allowance_is_metered(s->of_address) ||
			allowance_is_metered(s->of_connection);
	if (!heap_has(&s->throttle_node))
		return;
	hold(s);
	if (!heap_has(&s->throttle_node))
		s->ops->on_progress(s->ctx);
}

void session_allowance_turn(struct service *service)
{
	struct heap_node *n;
	struct session *s;

	while ((n = heap_min(&service->throttled)) != NULL &&
	       n->key <= service->broker->mono_ms) {
		heap_remove(&service->throttled, n);
		s = container_of(n, struct session, throttle_node);
		s->ops->on_progress(s->ctx);
	}
}

int64_t session_allowance_due_ms(const struct service *service)
{
	const struct broker *b = service->broker;
	const struct heap_node *n = heap_min(&service->throttled);

	return n ? b->now_ms + (n->key - b->mono_ms) : 0;
}

int session_allowance_publish(struct session *s, size_t bytes, struct error *err)
{
	int64_t mono_ms = s->broker->mono_ms;

	if (!s->is_throttled &&
	    (allowance_check_publish(s->of_user, mono_ms, err) < 0 ||
	     allowance_check_publish(s->of_address, mono_ms, err) < 0 ||
	     allowance_check_publish(s->of_connection, mono_ms, err) < 0))
		return err->code;
	allowance_count_publish(s->of_user, bytes, mono_ms);
	allowance_count_publish(s->of_address, bytes, mono_ms);
	allowance_count_publish(s->of_connection, bytes, mono_ms);
	if (s->is_throttled)
		hold(s);
	return TIDE_OK;
}

/* Connections and channels. */

void session_allowance_set_address(struct session *s, struct allowance *a)
{
	s->of_address = a;
	session_allowance_note(s);
}

void session_allowance_logout(struct session *s)
{
	allowance_remove_channels(s->of_user, s->channel_count);
	allowance_leave(s->of_user, s->broker->mono_ms);
	s->of_user = NULL;
	session_allowance_note(s);
}

int session_allowance_login(struct session *s, const struct user *u, struct error *err)
{
	int rc;

	session_allowance_logout(s);
	rc = allowance_enter(&s->service->allowances, ALLOWANCE_USER, slice_from(u->name),
			     &u->limits, &s->of_user, err);
	if (rc < 0)
		return rc;
	rc = allowance_check_channels(s->of_user, s->channel_count, err);
	allowance_add_channels(s->of_user, s->channel_count);
	if (rc < 0)
		session_allowance_logout(s);
	session_allowance_note(s);
	return rc;
}

int session_allowance_open(struct session *s, struct error *err)
{
	if (allowance_check_channels(s->of_user, 1, err) < 0 ||
	    allowance_check_channels(s->of_address, 1, err) < 0 ||
	    allowance_check_channels(s->of_connection, 1, err) < 0)
		return err->code;
	allowance_add_channels(s->of_user, 1);
	allowance_add_channels(s->of_address, 1);
	allowance_add_channels(s->of_connection, 1);
	return TIDE_OK;
}

void session_allowance_close(struct session *s)
{
	allowance_remove_channels(s->of_user, 1);
	allowance_remove_channels(s->of_address, 1);
	allowance_remove_channels(s->of_connection, 1);
}

static void leave_connection(struct session *s)
{
	allowance_remove_channels(s->of_connection, s->channel_count);
	allowance_leave(s->of_connection, s->broker->mono_ms);
	s->of_connection = NULL;
}

void session_allowance_limit(struct session *s, const struct user_limits *limits)
{
	char number[DECIMAL_MAX];
	struct slice name = { number, 0 };
	struct error never;

	leave_connection(s);
	if (limits) {
		name.len = (size_t)(decimal_put(number, s->number) - number);
		if (allowance_enter(&s->service->allowances, ALLOWANCE_CONNECTION, name,
				    limits, &s->of_connection, &never) == TIDE_OK)
			allowance_add_channels(s->of_connection, s->channel_count);
	}
	session_allowance_note(s);
}
