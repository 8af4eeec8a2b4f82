/* KILL and DRAIN. */
#include <inttypes.h>
#include <stdio.h>

#include "host/log.h"
#include "session_private.h"

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
