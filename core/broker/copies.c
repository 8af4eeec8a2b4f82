#include "copies.h"

#include "broker.h"
#include "host/log.h"
#include "move.h"
#include "queue.h"

#define REFUSED_LOG_MS 60000

void copies_tell_lost(struct queue *q, const struct msg *m, const char *why)
{
	if (!log_is_due(&q->copies_logged_ms, q->vhost->broker->now_ms, REFUSED_LOG_MS))
		return;
	log_warn("%s '%s' of vhost '%s': a script's copy to exchange '%" SLICE_FMT
		 "' is lost: %s",
		 q->topic ? "topic" : "queue", q->name, q->vhost->name,
		 SLICE_ARG(msg_exchange_word(m)), why);
}

static int publish(struct queue *q, struct msg *m, struct waiter *w, struct error *err)
{
	m->id = broker_next_id(q->vhost->broker);
	if (!m->id)
		return id_lease_check(q->vhost->broker, err);
	return move_publish(q->vhost, m, NULL, w, err);
}

void copies_publish_take(struct queue *q, struct draft_copies *copies, struct waiter *w)
{
	struct error err;

	for (unsigned i = 0; i < copies->count; i++) {
		struct msg *m = copies->items[i];

		if (publish(q, m, w, &err) < 0)
			copies_tell_lost(q, m, err.text);
		msg_unref(m);
	}
	copies->count = 0;
}
