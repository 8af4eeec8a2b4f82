/* PAUSE and RESUME. */
#include "broker/pause.h"
#include "session_private.h"

int session_pause(struct session *s, const struct pause_spec *spec, struct reply *r,
		  struct error *err)
{
	int64_t until_ms = 0;
	struct queue *q;

	if (session_queue_find(s, USER_CONFIGURE, spec->queue, &q, err) < 0)
		return err->code;
	if (!spec->is_resume)
		until_ms =
			spec->for_ms ? s->broker->now_ms + spec->for_ms : PAUSE_FOREVER;
	pause_set(q,
		  (unsigned)(spec->which != PAUSE_OUT) << QUEUE_IN |
			  (unsigned)(spec->which != PAUSE_IN) << QUEUE_OUT,
		  until_ms, &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}
