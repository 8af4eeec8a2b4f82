/* KILL and DRAIN. */
#include <inttypes.h>
#include <stdio.h>

#include "host/log.h"
#include "session_private.h"

int session_operate_kill(struct session *s, uint64_t number, struct reply *r,
			 struct error *err)
{
	struct session *peer;
	char who[SESSION_AUTHOR_MAX], why[SESSION_AUTHOR_MAX + 32];

	if (session_access_check_tag(s, USER_ADMIN, "KILL", err) < 0)
		return err->code;
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

int session_operate_drain(struct session *s, bool is_on, struct reply *r,
			  struct error *err)
{
	char who[SESSION_AUTHOR_MAX];

	if (session_access_check_tag(s, USER_ADMIN, "DRAIN", err) < 0)
		return err->code;
	session_format_author(s, who);
	service_refuse_publishes(s->service, is_on, who);
	reply_ok(r);
	return TIDE_OK;
}
