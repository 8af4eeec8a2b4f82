/* LOCK, UNLOCK and CHECK. */
#include "session_private.h"

#define TTL_DEFAULT_MS 30000

int session_lock_take(struct channel *ch, const struct lock_request *request,
		      struct reply *r, struct error *err)
{
	const struct lock_spec spec = {
		.name = request->name,
		.ttl_ms = request->ttl_ms || request->token ? request->ttl_ms
							    : TTL_DEFAULT_MS,
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
