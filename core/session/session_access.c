/* What the session's user may do: every request asks here first. */
#include "broker/address.h"
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
	return subject_ask(subject_of(s), action, address_kind(s->vhost, name), name,
			   err);
}

int session_access_check_write(struct session *s, struct slice exchange, struct slice key,
			       struct error *err)
{
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return address_check(subject_of(s), s->vhost, exchange, key, err);
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
