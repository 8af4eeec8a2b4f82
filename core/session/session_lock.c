/* LOCK, UNLOCK and CHECK. */
#include "session_private.h"

int session_lock_take(struct channel *ch, const struct lock_request *request,
		      struct reply *r, struct error *err)
{
	const struct lock_spec spec = {
		.name = request->name,
		.ttl_ms = request->ttl_ms,
		.wait_ms = request->wait_ms,
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

int session_lock_release(struct session *s, struct slice name, uint64_t token,
			 struct reply *r, struct error *err)
{
	int rc = session_access_check(s, USER_WRITE, SUBJECT_LOCK, name, err);

	if (rc == TIDE_OK)
		rc = lock_release(s->vhost, name, token, &r->waiter, err);
	if (rc == TIDE_OK)
		reply_ok(r);
	return rc;
}

int session_lock_check(struct session *s, struct slice name, uint64_t token,
		       struct reply *r, struct error *err)
{
	int rc = session_access_check(s, USER_READ, SUBJECT_LOCK, name, err);

	if (rc == TIDE_OK)
		rc = lock_check(s->vhost, name, token, err);
	if (rc == TIDE_OK)
		reply_ok(r);
	return rc;
}
