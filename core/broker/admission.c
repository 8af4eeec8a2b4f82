#include "admission.h"

#include "pause.h"
#include "queue.h"

static bool is_known(const struct outcome *o, const struct queue *q)
{
	const struct dedupe_key key = decide_dedupe_key(o);

	return o->msg->dedupe_len && queue_dedupe_ms(q) > 0 &&
	       dedupe_wanted(q->dedupe, &key) == 0;
}

int admission_check_pick(const struct outcome *o, const struct pick *pick,
			 struct error *err)
{
	struct queue *q = pick->queue;
	char until[PAUSE_TEXT_MAX];

	if (!q->is_guarded || is_known(o, q))
		return TIDE_OK;
	if (pause_is_on(q, QUEUE_IN)) {
		pause_format(q, QUEUE_IN, until);
		return error_set(err, TIDE_EBUSY,
				 "queue '%s' is paused: it takes no messages %s", q->name,
				 until);
	}
	return TIDE_OK;
}

static int check_outcome(const struct outcome *o, struct error *err)
{
	for (unsigned i = 0; i < o->count; i++) {
		if (admission_check_pick(o, &o->picks[i], err) < 0) {
			o->picks[i].queue->counters.refused++;
			return err->code;
		}
	}
	return TIDE_OK;
}

int admission_check(const struct decision *d, struct error *err)
{
	int rc = check_outcome(&d->first, err);

	for (unsigned i = 0; i < d->copy_count && rc == TIDE_OK; i++)
		rc = check_outcome(&d->copies[i], err);
	return rc;
}
