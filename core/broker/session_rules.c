/* session_rules.c: RULES: the generations that there were and may be. */
#include "../base/json.h"
#include "history.h"
#include "recent.h"
#include "session.h"
#include "shadow.h"

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

void session_rules_shadow_status(struct session *s, struct reply *r)
{
	struct buf text;
	struct json j;

	buf_init(&text);
	json_init(&j, &text);
	shadow_write(s->broker, &j);
	reply_data_take(r, &text);
}

void session_rules_shadow(struct session *s, const struct shadow_spec *spec,
			  struct reply *r)
{
	struct error err;

	if (shadow_start(s->broker, spec->dir, spec->share, &err) < 0)
		reply_error(r, &err);
	else
		session_rules_shadow_status(s, r);
}

static bool refuse_without_shadow(struct session *s, struct reply *r)
{
	if (!s->broker->shadow)
		reply_refuse(r, TIDE_ENOTFOUND, "nothing is in the shadow");
	return !s->broker->shadow;
}

void session_rules_shadow_promote(struct session *s, struct reply *r)
{
	struct broker *b = s->broker;
	struct error err;

	if (refuse_without_shadow(s, r))
		return;
	if (engine_load(b->engine, shadow_files(b), ENGINE_PROMOTE, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	shadow_drop(b);
	session_rules_status(s, r);
}

void session_rules_shadow_drop(struct session *s, struct reply *r)
{
	if (refuse_without_shadow(s, r))
		return;
	shadow_drop(s->broker);
	reply_ok(r);
}

void session_rules_recent(struct session *s, size_t max, struct reply *r)
{
	struct buf text;
	struct json j;

	buf_init(&text);
	json_init(&j, &text);
	recent_write(s->broker->recent, s->broker, max, &j);
	reply_data_take(r, &text);
}

void session_rules_replay(struct session *s, struct slice dir, struct reply *r)
{
	replay_start(s->broker, dir, r);
}
