/* What the user of a session may do, and what he is told of names that are not there. */
#include <stdio.h>

#include "base/mem.h"
#include "broker/route.h"
#include "session_private.h"

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

int session_access_check(struct session *s, enum user_action action,
			 enum subject_kind kind, struct slice name, struct error *err)
{
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return subject_ask(subject_of(s), action, kind, name, err);
}

int session_access_check_queue(struct session *s, enum user_action action,
			       struct slice name, struct error *err)
{
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return subject_ask(subject_of(s), action, route_subject_kind(s->vhost, name),
			   name, err);
}

int session_access_check_write(struct session *s, struct slice exchange, struct slice key,
			       struct error *err)
{
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

/* ---- names that are not there ---- */

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

/* Who may do nothing with the name there is not told that it is there. */
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
		if (!session_access_may_enter(s, vhost_slice(v)))
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
