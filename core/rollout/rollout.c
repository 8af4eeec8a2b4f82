#include "rollout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "base/mem.h"
#include "follow/recent.h"
#include "history.h"
#include "host/log.h"
#include "replay.h"
#include "rules/sandbox/source.h"
#include "shadow.h"
#include "trials.h"
#include "upload.h"

void rollout_init(struct rollout *r, struct broker *b)
{
	r->broker = b;
	r->history = history_create(b);
	r->trials = trials_create(b, r->history);
	/* The start may have loaded others than those that the other owners have. */
	r->cells_seen = UINT64_MAX;
	r->recent = recent_create(b->config.replay_payloads);
	recent_watch(r->recent, b);
}

void rollout_close(struct rollout *r)
{
	shadow_drop(r);
	replay_cancel(r);
	upload_cancel(r);
	trials_destroy(r->trials);
	r->trials = NULL;
}

void rollout_deinit(struct rollout *r)
{
	history_destroy(r->fresh);
	history_destroy(r->history);
	trials_destroy(r->trials);
	recent_destroy(r->recent);
}

void rollout_tell_unread(struct rollout *r, const char *unread)
{
	uint64_t hash = source_hash(unread, strlen(unread));

	if (unread[0] && hash != r->unread)
		log_warn("rules: %s", unread);
	r->unread = hash;
}

/* A change of the rules under way. */
struct change {
	struct rollout *rollout;
	enum engine_origin origin;
	struct bundle *files; /* a reference; NULL: not yet read of the directory */
	char *specs_dir;      /* may be NULL */
	char by[RELOAD_ASKER_MAX];
	bool must_install;
	reload_done_fn *on_done;
	void *ctx;
	bool is_loading;            /* counted in rollout.loading */
	const struct bundle *known; /* of the directory when it was asked for */
	uint64_t epoch;             /* likewise */
};

/* A rollback or a promotion is not queued behind it. Specs may take long: others may
 * change the rules then. */
static void set_loading(struct change *c, bool is_loading)
{
	if (c->origin == ENGINE_FILES || c->is_loading == is_loading)
		return;
	c->is_loading = is_loading;
	if (is_loading)
		c->rollout->loading++;
	else
		c->rollout->loading--;
}

static bool is_directory(const struct change *c)
{
	return c->origin == ENGINE_FILES || c->origin == ENGINE_RELOAD;
}

/* The end. */
static void conclude(struct change *c, const struct error *result)
{
	if (c->on_done)
		c->on_done(c->ctx, result);
	bundle_unref(c->files);
	mem_free(c->specs_dir);
	mem_free(c);
}

/* Step 6: the files are in the rules directory, or not. */
static void on_installed(void *ctx, const struct trial_result *result)
{
	struct change *c = ctx;
	struct engine *e = c->rollout->broker->engine;

	if (result->error.code == TIDE_OK &&
	    bundle_hash(engine_files(e)) == bundle_hash(c->files))
		reload_installed(e);
	conclude(c, &result->error);
}

static void install(void *ctx, int status, const char *text)
{
	static const struct error stopping = { TIDE_ESHUTDOWN, "the broker is stopping" };
	struct change *c = ctx;
	const struct trial_question question = {
		.dir = c->rollout->broker->config.rules_dir,
		.files = c->files,
		.is_install = true,
	};

	if (c->rollout->trials)
		trials_load(c->rollout->trials, &question, on_installed, c);
	else
		conclude(c, &stopping);
}

/* Step 5: the engine has loaded them, or has refused to. */
static void on_changed(void *ctx, const struct error *result)
{
	struct change *c = ctx;
	struct rollout *r = c->rollout;
	struct error why;

	set_loading(c, false);
	/* Unless it was dropped, or something else put there, meanwhile. */
	if (result->code == TIDE_OK && c->origin == ENGINE_PROMOTE &&
	    shadow_files(r) == c->files)
		shadow_drop(r);
	if (result->code == TIDE_OK && !is_directory(c)) {
		error_set(&why, TIDE_EBUSY, "other rules became active meanwhile, by %s",
			  engine_origin_name(c->origin));
		trials_supersede(r->trials, &why);
	}
	/* A broker that ends while it writes the files must not be taken for one that
	 * these rules have ended: Redis has them as the last ones first. */
	if (result->code == TIDE_OK && c->must_install)
		history_flush(r->history, install, c);
	else
		conclude(c, result);
}

static void refuse(struct change *c, const struct error *why)
{
	if (why->code == TIDE_ERULE)
		reload_refuse(c->rollout->broker->engine, c->origin, c->files, c->by,
			      why);
	on_changed(c, why);
}

/* Others may have loaded these files of the directory meanwhile. What is active now may
 * be other files, after a rollback: they stay. */
static bool is_superseded(const struct change *c)
{
	const struct engine *e = c->rollout->broker->engine;
	const struct bundle *known = reload_known_files(e);

	return (engine_epoch(e) != c->epoch || known != c->known) && known && c->files &&
	       bundle_hash(known) == bundle_hash(c->files);
}

/* Step 4: Redis knows that they are being loaded. */
static void load(void *ctx, int status, const char *text)
{
	struct change *c = ctx;
	struct rollout *r = c->rollout;
	struct engine *e = r->broker->engine;
	const struct reload_asker asker = { c->by, on_changed, c };
	struct error err = { .code = TIDE_OK };

	if (r->broker->is_closing)
		error_set(&err, TIDE_ESHUTDOWN, "the broker is stopping");
	else if (c->origin == ENGINE_FILES && is_superseded(c))
		reload_unchanged(e);
	else if (c->origin == ENGINE_FILES)
		reload_follow(e, c->files);
	else if (c->origin == ENGINE_RELOAD)
		reload_start(e, c->files, &asker);
	else
		err.code = reload_files(e, c->files, c->origin, &asker, &err);
	if (err.code < 0 || c->origin == ENGINE_FILES)
		on_changed(c, &err);
	else
		set_loading(c, false);
}

/* Step 3: their specs have passed, or not. The files may be newer ones of the directory.
 */
static void on_tested(void *ctx, struct bundle *files, const struct error *answer)
{
	struct change *c = ctx;

	if (files)
		bundle_ref(files);
	bundle_unref(c->files);
	c->files = files;
	set_loading(c, true);
	if (answer->code < 0)
		refuse(c, answer);
	else if (!files)
		load(c, TIDE_OK, NULL);
	else
		history_note_loading(c->rollout->history, bundle_hash(files), load, c);
}

/* Step 2: they have been loaded in a child, or not. */
static void on_tried(void *ctx, const struct trial_result *result)
{
	struct change *c = ctx;
	const struct spec_question question = { result->files, is_directory(c),
						c->specs_dir };
	struct error err = result->error;

	if (!c->files && result->files)
		c->files = bundle_ref(result->files);
	if (err.code == TIDE_OK && c->origin == ENGINE_FILES && result->files &&
	    !result->is_known)
		err.code = history_check_loading(c->rollout->history,
						 bundle_hash(result->files), &err);
	if (err.code < 0) {
		refuse(c, &err);
		return;
	}
	if (is_directory(c))
		rollout_tell_unread(c->rollout, result->unread);
	if (c->origin == ENGINE_FILES && (result->is_known || is_superseded(c))) {
		reload_unchanged(c->rollout->broker->engine);
		on_changed(c, &result->error);
		return;
	}
	set_loading(c, false);
	trials_test(c->rollout->trials, &question, on_tested, c);
}

/* Step 1. */
void rollout_begin(struct rollout *r, const struct rollout_change *spec)
{
	const struct engine *e = r->broker->engine;
	struct change *c;
	struct trial_question trial = {
		.dir = r->broker->config.rules_dir,
		.files = spec->files,
		.known = reload_known_files(e),
		.framework = reload_framework(e),
	};

	if (spec->files && r->loading > 0) {
		struct error err;

		error_set(&err, TIDE_EBUSY, "other rules are being loaded; try again");
		if (spec->on_done)
			spec->on_done(spec->ctx, &err);
		return;
	}
	c = mem_zalloc(sizeof(*c));
	c->rollout = r;
	c->origin = spec->origin;
	c->epoch = engine_epoch(e);
	c->known = trial.known;
	c->files = spec->files ? bundle_ref(spec->files) : NULL;
	c->specs_dir = spec->specs_dir ? mem_strdup(spec->specs_dir) : NULL;
	c->must_install = spec->must_install;
	snprintf(c->by, sizeof(c->by), "%s", spec->by);
	c->on_done = spec->on_done;
	c->ctx = spec->ctx;
	set_loading(c, true);
	trials_load(r->trials, &trial, on_tried, c);
}

static bool may_change(const struct rollout *r)
{
	return r->broker->is_started && !r->broker->is_closing;
}

void rollout_follow(struct rollout *r)
{
	const struct rollout_change spec = { .origin = ENGINE_FILES, .by = "" };

	/* The start goes on with what it has checked, and looks again when it is done. */
	r->has_changed_rules = !r->broker->is_started;
	if (may_change(r))
		rollout_begin(r, &spec);
}

void rollout_reload(struct rollout *r)
{
	const struct rollout_change spec = { .origin = ENGINE_RELOAD, .by = "SIGHUP" };

	/* A start under way loads them itself. */
	if (may_change(r))
		rollout_begin(r, &spec);
}

/* ---- rules under which every publish fails ---- */

static void judge(struct follower *f, struct step *s)
{
	struct rollout *r = container_of(f, struct rollout, probation);

	if (!s->error) {
		step_unfollow(&r->broker->followers, f);
		r->failures = 0;
	} else if (s->error->code == TIDE_ERULE) {
		r->failures++;
	}
}

static void begin_probation(struct rollout *r)
{
	r->failures = 0;
	r->probation = (struct follower){ .tell = judge,
					  .steps = STEP_BIT(STEP_DECIDED),
					  .role = FOLLOWER_PROBATION };
	step_follow(&r->broker->followers, &r->probation);
}

/* Others may be loading rules: as many failures more, and it is tried again. */
static void on_left(void *ctx, const struct error *result)
{
	struct rollout *r = ctx;

	if (result->code == TIDE_OK || r->broker->is_closing)
		return;
	log_error("rules: the active ones fail every publish and stay: %s", result->text);
	if (result->code == TIDE_EBUSY)
		begin_probation(r);
}

static void leave_rules(struct rollout *r)
{
	struct rollout_change spec = { .origin = ENGINE_ROLLBACK,
				       .specs_dir = r->broker->config.rules_dir,
				       .by = "--rules-rollback",
				       .on_done = on_left,
				       .ctx = r };
	char hash[20];
	struct error err;

	step_unfollow(&r->broker->followers, &r->probation);
	log_error("rules: the first %u publishes by %016" PRIx64
		  " have failed; going back to the rules before",
		  r->failures, engine_hash(r->broker->engine));
	r->failures = 0;
	snprintf(hash, sizeof(hash), "%016" PRIx64, r->hash_before);
	if (history_find(r->history, slice_from(hash), &spec.files, &err) == TIDE_OK)
		rollout_begin(r, &spec);
	else
		on_left(r, &err);
}

void rollout_turn(struct rollout *r)
{
	const struct engine *e = r->broker->engine;
	unsigned most = r->broker->config.rules_rollback;
	uint64_t epoch;

	if (most == 0 || !may_change(r))
		return;
	epoch = engine_epoch(e);
	if (epoch != r->probation_epoch) {
		step_unfollow(&r->broker->followers, &r->probation);
		/* Those that have done nothing but fail are no rules to go back to. */
		if (r->failures == 0)
			r->hash_before = r->hash;
		r->failures = 0;
		r->hash = engine_hash(e);
		if (r->probation_epoch && engine_origin(e) != ENGINE_ROLLBACK)
			begin_probation(r);
		r->probation_epoch = epoch;
	}
	if (r->failures >= most)
		leave_rules(r);
}
