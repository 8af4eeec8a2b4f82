/* session_rules.c: RULES: the generations that there are, were and may be.
 *
 * What takes many turns is answered when it has ended; the session may be gone by
 * then, the reply is there until it is answered. */
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "rules/sandbox/bundle.h"
#include "rules/engine/reload.h"
#include "rules/engine/engine_status.h"
#include "rollout/gate.h"
#include "rollout/history.h"
#include "rollout/recent.h"
#include "rollout/replay.h"
#include "rules/spec/simulate_retry.h"
#include "rollout/shadow.h"
#include "session_private.h"

/* Of who asked, for RULES log. */
#define AUTHOR_MAX 300

_Static_assert(SESSION_RECENT_MAX == RECENT_MAX, "RULES recent may show all");

/* "connection 7 'deploy' from 127.0.0.1:50412"; the name only if it has one. */
static void write_author(const struct session *s, char out[AUTHOR_MAX])
{
	const char *peer = s->ops->peer ? s->ops->peer(s->ctx) : NULL;
	bool has_name = s->name && s->name[0];

	snprintf(out, AUTHOR_MAX, "connection %llu%s%.100s%s%s%.150s",
		 (unsigned long long)s->number, has_name ? " '" : "",
		 has_name ? s->name : "", has_name ? "'" : "", peer ? " from " : "",
		 peer ? peer : "");
}

static void reply_status(struct reply *r)
{
	const struct broker *b = ((struct service *)r->context)->broker;
	struct json j;

	reply_json(r, &j);
	engine_status(b->engine, &j);
	reply_data(r);
}

void session_rules_status(struct session *s, struct reply *r)
{
	reply_status(r);
}

static void on_reloaded(void *ctx, const struct error *result)
{
	struct reply *r = ctx;

	if (result->code < 0)
		reply_error(r, result);
	else
		reply_status(r);
}

/* Who asks may be gone when the gate has answered. */
struct reloading {
	struct reply *reply;
	char by[AUTHOR_MAX];
};

static void on_directory_passed(void *ctx, const struct error *answer)
{
	struct reloading *a = ctx;
	struct reply *r = a->reply;
	const struct broker *b = ((struct service *)r->context)->broker;

	if (answer->code == TIDE_OK || answer->code == TIDE_ERULE)
		reload_set_asker(b->engine, a->by);
	mem_free(a);
	if (answer->code == TIDE_ERULE)
		reload_refuse(b->engine, ENGINE_RELOAD, NULL, answer);
	if (answer->code < 0)
		reply_error(r, answer);
	else
		reload_start(b->engine, on_reloaded, r);
}

void session_rules_reload(struct session *s, struct reply *r)
{
	struct reloading *a = mem_alloc(sizeof(*a));

	a->reply = r;
	write_author(s, a->by);
	gate_ask(s->broker->gate, NULL, NULL, on_directory_passed, a);
}

/* Files that are to become the active rules. */
struct loading {
	struct broker *broker;
	struct bundle *files; /* a reference */
	enum engine_origin origin;
	struct reply *reply;
	char by[AUTHOR_MAX];
};

static void free_loading(struct loading *l)
{
	bundle_unref(l->files);
	mem_free(l);
}

static void refuse_loading(struct loading *l, const struct error *why)
{
	reply_error(l->reply, why);
	free_loading(l);
}

static void on_loaded(void *ctx, const struct error *result)
{
	struct loading *l = ctx;

	if (result->code < 0) {
		refuse_loading(l, result);
		return;
	}
	/* Unless it was dropped, or something else put there, meanwhile. */
	if (l->origin == ENGINE_PROMOTE && shadow_files(l->broker) == l->files)
		shadow_drop(l->broker);
	reply_status(l->reply);
	free_loading(l);
}

static void on_files_passed(void *ctx, const struct error *answer)
{
	struct loading *l = ctx;
	struct engine *e = l->broker->engine;
	struct error err = *answer;

	if (err.code == TIDE_OK || err.code == TIDE_ERULE)
		reload_set_asker(e, l->by);
	if (err.code == TIDE_ERULE)
		reload_refuse(e, l->origin, l->files, &err);
	else if (err.code == TIDE_OK &&
		 reload_files(e, l->files, l->origin, on_loaded, l, &err) == TIDE_OK)
		return;
	refuse_loading(l, &err);
}

static void activate(struct session *s, struct bundle *files, enum engine_origin origin,
		     const char *specs_dir, struct reply *r)
{
	struct broker *b = s->broker;
	struct loading *l = mem_zalloc(sizeof(*l));

	l->broker = b;
	l->files = bundle_ref(files);
	l->origin = origin;
	l->reply = r;
	write_author(s, l->by);
	gate_ask(b->gate, files, specs_dir, on_files_passed, l);
}

void session_rules_rollback(struct session *s, struct slice hash, struct reply *r)
{
	struct broker *b = s->broker;
	struct bundle *files;
	struct error err;

	if (history_find(b->history, hash, &files, &err) < 0)
		reply_error(r, &err);
	else
		activate(s, files, ENGINE_ROLLBACK, b->config.rules_dir, r);
}

void session_rules_log(struct session *s, struct reply *r)
{
	struct json j;

	reply_json(r, &j);
	history_write(s->broker->history, &j);
	reply_data(r);
}

static void reply_shadow(struct reply *r)
{
	struct json j;

	reply_json(r, &j);
	shadow_write(((struct service *)r->context)->broker, &j);
	reply_data(r);
}

void session_rules_shadow_status(struct session *s, struct reply *r)
{
	reply_shadow(r);
}

static void on_shadow(void *ctx, const struct error *result)
{
	struct reply *r = ctx;

	if (result->code < 0)
		reply_error(r, result);
	else
		reply_shadow(r);
}

void session_rules_shadow(struct session *s, struct slice dir, double share,
			  struct reply *r)
{
	struct shadow_spec what = { dir, share ? share : SHADOW_SHARE_DEFAULT };
	struct error err;

	if (shadow_start(s->broker, &what, on_shadow, r, &err) < 0)
		reply_error(r, &err);
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

	if (refuse_without_shadow(s, r))
		return;
	if (!shadow_files(b))
		reply_refuse(r, TIDE_EBUSY, "the shadow is being loaded; ask again");
	else
		activate(s, shadow_files(b), ENGINE_PROMOTE, shadow_dir(b), r);
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
	struct json j;

	reply_json(r, &j);
	recent_write(s->broker->recent, s->broker, max, &j);
	reply_data(r);
}

static void on_replayed(void *ctx, struct buf *document_take, const struct error *failure)
{
	if (failure)
		reply_error(ctx, failure);
	else
		reply_data_take(ctx, document_take);
}

void session_rules_replay(struct session *s, struct slice dir, struct reply *r)
{
	struct error err;

	if (replay_start(s->broker, dir, on_replayed, r, &err) < 0)
		reply_error(r, &err);
}

void session_rules_simulate(struct session *s, const struct retry_spec *spec,
			    struct reply *r)
{
	struct simulate_spec what = {
		.name = spec->name,
		.options = spec->options,
		.reason = spec->reason,
		.failures_max = spec->failures_max,
	};
	struct queue_config queue;
	struct error err;
	struct json j;

	if (queue_config_parse(&queue, spec->queue_options, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	what.delivery_limit = queue.delivery_limit;
	/* A NACK comes when the consumer likes, and here at once. */
	if (strcmp(spec->reason, "timeout") == 0)
		what.held_ms = queue.ack_timeout_ms;
	queue_config_deinit(&queue);
	reply_json(r, &j);
	if (simulate_retry(s->broker->engine, &what, &j, &err) < 0) {
		reply_error(r, &err);
	} else {
		reply_data(r);
	}
}
