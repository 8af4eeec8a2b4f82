#include "candidate.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "broker/definition.h"
#include "broker/queue.h"
#include "broker/declare.h"
#include "broker/queue_figures.h"
#include "trials.h"
#include "host/log.h"
#include "host/machine.h"
#include "rules/sandbox/bundle.h"
#include "rules/engine/reload.h"
#include "rules/engine/strategy.h"
#include "rules/engine/rules_dir.h"

/* Exchanges and queues that are attached in a step. */
#define STEP_MAX 500

/* The directory. Whoever may ask for a shadow or a replay runs its scripts in the broker,
 * and reads in the answer what does not load: it must lie below a configured one, and be
 * closed to others than those who may change the rules (host/machine.h). */

int candidate_base(const struct broker_config *config, char out[PATH_MAX],
		   struct error *err)
{
	char rules[PATH_MAX];
	const char *base = config->rules_candidates;

	if (!base) {
		snprintf(rules, sizeof(rules), "%s", config->rules_dir);
		base = dirname(rules);
	}
	return realpath(base, out) ? TIDE_OK
				   : error_set(err, TIDE_ENOTFOUND,
					       "the directory '%s' for candidate rules "
					       "(serve --rules-candidates): %s",
					       base, strerror(errno));
}

static int refuse_place(const char *path, const char *within, struct error *err)
{
	return error_set(err, TIDE_EDENIED,
			 "'%s' does not lie below '%s', where candidate rules are "
			 "(serve --rules-candidates)",
			 path, within);
}

/* The directory and those that it lies in, up to the configured one. */
static int check_trust(const struct broker_config *config, const char *path,
		       const char *within, struct error *err)
{
	char at[PATH_MAX];
	char *slash;
	int rc;

	snprintf(at, sizeof(at), "%s", path);
	while ((rc = machine_check_trust(at, config->rules_dir, err)) == TIDE_OK &&
	       strcmp(at, within) != 0 && (slash = strrchr(at, '/')) && slash > at)
		*slash = '\0';
	return rc;
}

static int find_dir(const struct broker_config *config, struct slice dir,
		    char out[PATH_MAX], char within[PATH_MAX], struct error *err)
{
	char path[PATH_MAX];
	struct stat st;
	bool is_absolute = dir.len > 0 && dir.data[0] == '/';
	int rc = candidate_base(config, within, err), len;

	if (rc < 0)
		return rc;
	len = snprintf(path, sizeof(path), "%s%s%" SLICE_FMT, is_absolute ? "" : within,
		       is_absolute ? "" : "/", SLICE_ARG(dir));
	if (len >= PATH_MAX)
		return error_set(err, TIDE_ENOTFOUND, "the path is too long");
	if (!realpath(path, out)) {
		/* A place outside is refused without a word about what is there. */
		if (!machine_is_within(path, within) || strstr(path, "/.."))
			return refuse_place(path, within, err);
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no directory '%s' on the broker's machine",
				 path);
	}
	if (!machine_is_within(out, within))
		return refuse_place(path, within, err);
	if (stat(out, &st) != 0 || !S_ISDIR(st.st_mode))
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no directory '%s' on the broker's machine",
				 path);
	return check_trust(config, out, within, err);
}

bool candidate_is_of(const struct candidate *c, struct slice dir)
{
	char path[PATH_MAX], within[PATH_MAX];
	struct error ignored;

	return find_dir(&c->broker->config, dir, path, within, &ignored) == TIDE_OK &&
	       strcmp(path, c->dir) == 0;
}

/* Decisions. */

static void give_ids(struct decision *d, const struct decision *active)
{
	for (unsigned i = 0, k = 0; i < d->copy_count; i++) {
		while (k < active->copy_count &&
		       active->copies[k].number < d->copies[i].number)
			k++;
		if (k < active->copy_count &&
		    active->copies[k].number == d->copies[i].number)
			d->copies[i].msg->id = active->copies[k].msg->id;
	}
}

int candidate_decide(struct candidate *c, struct decide_spec *spec,
		     const struct decision *active, struct decision *d, struct error *err)
{
	int rc;

	spec->rules = &c->rules;
	spec->exchange = NULL;
	if (c->rules.failure.code != TIDE_OK) {
		*d = (struct decision){ .copy_count = 0 };
		*err = c->rules.failure;
		c->rules.failure.code = TIDE_OK;
		return err->code;
	}
	rc = decide_filter(d, spec, err);
	if (rc < 0)
		return rc;
	if (active)
		give_ids(d, active);
	return decide_route(d, spec, err);
}

/* The files are compared anew with each generation. */
static const struct rules_dir_difference *difference(struct candidate *c)
{
	const struct engine *active = c->broker->engine;

	if (c->epoch != engine_epoch(active)) {
		c->epoch = engine_epoch(active);
		c->difference = rules_dir_compare(engine_files(active),
						  engine_files(c->rules.engine));
	}
	return &c->difference;
}

bool candidate_has_other_scripts(struct candidate *c, enum script_kind kind)
{
	const struct rules_dir_difference *d = difference(c);

	return d->modules || d->scripts[kind];
}

static bool is_other(struct candidate *c, const struct queue *q, enum script_kind kind)
{
	return strategy_hash(q->strategies[c->rules.slot][kind]) !=
		       strategy_hash(q->strategies[RULESET_ACTIVE][kind]) ||
	       difference(c)->modules;
}

static bool is_telling(struct candidate *c, const struct queue *q, enum script_kind kind)
{
	return strategy_is_pure(q->strategies[c->rules.slot][kind]) ||
	       is_other(c, q, kind);
}

void candidate_judge(struct candidate *c, const struct decision *d, int status,
		     struct verdict *out)
{
	struct verdict_target *t = out->targets;

	verdict_set(out, d, status);
	for (unsigned n = 0; status == TIDE_OK && n <= d->copy_count; n++) {
		const struct outcome *o = n ? &d->copies[n - 1] : &d->first;

		for (unsigned i = 0; i < o->count && t < out->targets + VERDICT_TARGETS;
		     i++, t++) {
			const struct queue *q = o->picks[i].queue;

			t->is_shard_telling = is_telling(c, q, SCRIPT_SHARDING);
			t->is_rank_telling =
				!q->topic && is_telling(c, q, SCRIPT_PRIORITY);
		}
	}
}

bool candidate_has_other_retry(struct candidate *c, const struct queue *q)
{
	return !q->strategies[c->rules.slot][SCRIPT_RETRY] ||
	       is_other(c, q, SCRIPT_RETRY);
}

static void on_engine(void *ctx, const struct error *result)
{
	struct candidate *c = ctx;

	if (result->code != TIDE_ESHUTDOWN)
		c->on_loaded(c->ctx, result);
}

struct stepping {
	enum ruleset_slot slot;
	unsigned left;
};

/* An engine without scripts cannot fail here. */
static bool attach(void *ctx, struct definition *d)
{
	struct stepping *s = ctx;

	if (!definition_needs(d, s->slot))
		return true;
	if (s->left-- == 0)
		return false;
	definition_follow(d);
	return true;
}

/* Attach the definitions, then the scripts: the build of the first generation makes
 * the uses and the bindings in it, and follows what changes. */
static void on_turn(uv_idle_t *handle)
{
	struct candidate *c = handle->data;
	struct stepping s = { c->rules.slot, STEP_MAX };

	if (!definition_each(c->broker, attach, &s))
		return;
	uv_idle_stop(handle);
	reload_start(c->rules.engine, c->files,
		     &(struct reload_asker){ "", on_engine, c });
}

/* Rules that were tried in another process are attached and loaded here. */
static void on_tried(void *ctx, const struct trial_result *result)
{
	struct candidate *c = ctx;

	c->trial = NULL;
	if (result->error.code < 0) {
		on_engine(c, &result->error);
		return;
	}
	if (result->unread[0])
		log_warn("%s: %s", c->about, result->unread);
	if (result->files)
		c->files = bundle_ref(result->files);
	uv_idle_start(&c->turn, on_turn);
}

int candidate_create(struct candidate **out, struct rollout *r,
		     const struct candidate_spec *spec, struct error *err)
{
	bool is_replay = spec->slot == RULESET_REPLAY;
	char path[PATH_MAX], within[PATH_MAX], about[PATH_MAX + 32];
	struct trial_question trial = { .dir = path, .within = within };
	struct broker *b = r->broker;
	struct engine_config config = {
		.rules_dir = path,
		.about = about,
		.has_no_breaker = is_replay,
		.lua_dir = b->config.lua_dir,
		.memory_max_bytes = b->config.rules_memory_bytes,
		.call_budget_ms = b->config.rules_budget_ms,
		.secrets_dir = b->config.secrets_dir,
		.settings = b->config.rules_settings,
		.check_option = terms_check_option,
	};
	struct engine *e;
	struct candidate *c;
	int rc = find_dir(&b->config, spec->dir, path, within, err);

	if (rc < 0)
		return rc;
	snprintf(about, sizeof(about), "rules of '%s' (%s)", path,
		 is_replay ? "replay" : "shadow");
	const struct engine_hooks hooks = { .queues = queue_figures_for_scripts(b) };

	rc = engine_open(&e, b->loop, &config, &hooks, err);
	if (rc < 0)
		return rc;
	c = mem_zalloc(sizeof(*c));
	c->broker = b;
	c->dir = mem_strdup(path);
	c->about = mem_strdup(about);
	c->on_loaded = spec->on_loaded;
	c->ctx = spec->ctx;
	c->rules.engine = e;
	c->rules.slot = spec->slot;
	broker_set_candidate(b, spec->slot, &c->rules);
	uv_idle_init(b->loop, &c->turn);
	c->turn.data = c;
	c->trial = trials_load(r->trials, &trial, on_tried, c);
	*out = c;
	return TIDE_OK;
}

static void on_closed(uv_handle_t *handle)
{
	struct candidate *c = handle->data;

	bundle_unref(c->files);
	mem_free(c->about);
	mem_free(c->dir);
	mem_free(c);
}

void candidate_destroy(struct candidate *c)
{
	if (!c)
		return;
	trials_forget(c->trial);
	definition_detach_all(c->broker, c->rules.slot);
	broker_set_candidate(c->broker, c->rules.slot, NULL);
	engine_close(c->rules.engine, NULL, NULL);
	uv_close((uv_handle_t *)&c->turn, on_closed);
}

void candidate_write(const struct candidate *c, struct json *out)
{
	json_member_text(out, "directory", c->dir);
	json_member_hex(out, "hash", engine_hash(c->rules.engine));
}
