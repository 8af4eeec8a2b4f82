/* EXPLAIN: what a publish would do, which scripts would decide it, and why. It
 * is decided by the code that publishes; then it is printed, not done. */
#include "broker/decide.h"
#include "follow/explanation.h"
#include "session_private.h"

static void answer(struct explanation *x, const struct decide_spec *spec,
		   const struct decision *d, const struct error *failure, struct reply *r)
{
	struct json j;

	reply_json(r, &j);
	json_object_begin(&j);
	explanation_write(x, spec, d, failure, &j);
	json_object_end(&j);
	reply_data(r);
}

int session_explain(struct session *s, const struct publish_spec *spec, struct reply *r,
		    struct error *err)
{
	struct explanation *x;
	struct decision d;
	struct decision_context context = { .has_random = true, .is_dry = true };
	struct decide_spec what = { .rules = &s->broker->active_rules,
				    .context = &context,
				    .vhost = s->vhost,
				    .subject = &s->subject,
				    .now_ms = s->broker->now_ms };
	struct error denied;
	bool is_denied;
	int rc = session_access_check_monitor(s, "EXPLAIN", err);

	if (rc == TIDE_OK)
		rc = session_publish_make(s, spec, &what.msg, err);
	if (rc < 0)
		return rc;
	x = explanation_create();
	explanation_watch(x, &what, &context);
	/* It is decided all the same. */
	is_denied = session_access_check_write(s, spec->exchange, spec->key, &denied) < 0;
	context.random_state = engine_random_state(s->broker->engine);
	rc = decide(&d, &what, err);
	if (rc == TIDE_OK)
		err->code = TIDE_OK;
	if (rc == TIDE_OK || rc == TIDE_EREJECTED || rc == TIDE_ERULE ||
	    rc == TIDE_EDENIED) {
		answer(x, &what, &d, is_denied ? &denied : err, r);
		rc = TIDE_OK;
	}
	decide_deinit(&d);
	explanation_destroy(x);
	msg_unref(what.msg);
	return rc;
}
