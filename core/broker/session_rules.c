/* session_rules.c: RULES: which generations there were, and going back to one. */
#include "../base/json.h"
#include "history.h"
#include "session.h"

void session_rules_log(struct session *s, struct reply *r)
{
	struct buf text;
	struct json j;

	buf_init(&text);
	json_init(&j, &text);
	history_write(s->broker->history, &j);
	reply_data_take(r, &text);
}

void session_rules_rollback(struct session *s, struct slice hash, struct reply *r)
{
	struct broker *b = s->broker;
	struct bundle *files;
	struct error err;

	if (history_find(b->history, hash, &files, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	/* The history may let go of it while it notes what happens. */
	bundle_ref(files);
	if (engine_load(b->engine, files, ENGINE_ROLLBACK, &err) < 0)
		reply_error(r, &err);
	else
		session_rules_status(s, r);
	bundle_unref(files);
}
