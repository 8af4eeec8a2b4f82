#include "survey.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "engine_private.h"
#include "host/log.h"
#include "host/machine.h"
#include "rules/sandbox/bundle.h"

#define SURVEY_MEMORY_BYTES ((size_t)64 << 20)
#define SURVEY_BUDGET_MS 1000

struct survey {
	uv_loop_t loop;
	struct engine *engine;         /* without scripts; NULL if it cannot be */
	struct generation *generation; /* its functions belong to the engine */
	bool is_complete;
};

static int begin_survey(struct survey *s, const struct survey_spec *spec,
			struct error *err)
{
	const struct engine_config config = {
		.rules_dir = spec->rules_dir,
		.lua_dir = spec->lua_dir,
		.memory_max_bytes = SURVEY_MEMORY_BYTES,
		.call_budget_ms = SURVEY_BUDGET_MS,
		.has_stand_in_secrets = true,
		.settings = spec->settings,
		.check_option = spec->check_option,
	};
	int rc = engine_open(&s->engine, &s->loop, &config, NULL, err);

	if (rc == TIDE_OK)
		rc = generation_begin(&s->generation, &s->engine->scripts, NULL, err);
	return rc;
}

struct survey *survey_open(const struct survey_spec *spec,
			   void (*on_error)(void *ctx, const char *text), void *ctx)
{
	struct survey *s = mem_zalloc(sizeof(*s));
	struct error err;

	uv_loop_init(&s->loop);
	if (begin_survey(s, spec, &err) != TIDE_OK) {
		on_error(ctx, err.text);
		return s;
	}
	s->is_complete = true;
	/* Each step loads one file. A file that fails does not affect the others. */
	while (s->generation->is_loading) {
		if (generation_step(s->generation, &err) == TIDE_OK)
			continue;
		s->is_complete = false;
		on_error(ctx, err.text);
	}
	return s;
}

void survey_close(struct survey *s)
{
	generation_destroy(s->generation);
	if (s->engine)
		engine_close(s->engine, NULL, NULL);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	uv_loop_close(&s->loop);
	mem_free(s);
}

bool survey_is_complete(const struct survey *s)
{
	return s->is_complete;
}

struct rule *const *survey_scripts(const struct survey *s, size_t *count)
{
	*count = s->generation ? s->generation->rule_count : 0;
	return s->generation ? s->generation->rules : NULL;
}

const struct bundle *survey_files(const struct survey *s)
{
	return s->generation ? s->generation->files : NULL;
}

void survey_each_unread(const struct survey *s, rules_dir_unread_fn *on_file, void *ctx)
{
	if (s->generation)
		rules_dir_each_unread(s->engine->config.rules_dir, s->generation->files,
				      on_file, ctx);
}

/* Memory for the process itself, in addition to the memory of scripts. */
#define ROOM_BYTES ((rlim_t)512 << 20)

/* A sanitizer reserves terabytes of addresses. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_LIMIT 0
#else
#define HAS_ADDRESS_LIMIT 1
#endif

static void limit_resource(int what, rlim_t value)
{
	struct rlimit now;

	if (getrlimit(what, &now) != 0)
		return;
	now.rlim_cur = value < now.rlim_max ? value : now.rlim_max;
	setrlimit(what, &now);
}

/* The time used so far does not count. */
static void limit_time(const struct trial_spec *spec)
{
	struct rusage used;

	if (getrusage(RUSAGE_SELF, &used) == 0)
		limit_resource(RLIMIT_CPU,
			       (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 +
					SURVEY_FILE_S + spec->call_budget_ms / 1000));
}

static void limit_process(const struct trial_spec *spec)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	limit_resource(RLIMIT_CORE, 0);
	if (HAS_ADDRESS_LIMIT)
		limit_resource(RLIMIT_AS, spec->memory_max_bytes + ROOM_BYTES);
	limit_time(spec);
}

static int check_place(const struct trial_spec *spec, const char *path, const char *name,
		       struct error *err)
{
	char real[PATH_MAX];
	struct error why;

	if (!spec->within[0])
		return TIDE_OK;
	if (!realpath(path, real) || !machine_is_within(real, spec->within) ||
	    !slice_has_suffix(slice_from(real), ".lua"))
		return error_set(err, TIDE_ERULE,
				 "%s: leads to a place that is no Lua file below '%s' "
				 "(serve --rules-candidates)",
				 name, spec->within);
	if (machine_check_trust(real, spec->owned_like, &why) != TIDE_OK)
		return error_set(err, TIDE_ERULE, "%s: %s", name, why.text);
	return TIDE_OK;
}

static int on_file(void *ctx, const char *path, const struct bundle_file *file,
		   struct error *err)
{
	const struct trial_spec *spec = ctx;
	int rc = check_place(spec, path, file->path, err);

	if (rc != TIDE_OK)
		return rc;
	limit_time(spec);
	printf("file %016" PRIx64 " %s\n", source_hash(file->text, file->len),
	       file->path);
	fflush(stdout);
	return TIDE_OK;
}

static int load_all(struct engine *e, struct error *err)
{
	struct generation *g;
	int rc = generation_begin(&g, &e->scripts, NULL, err);

	if (rc != TIDE_OK)
		return rc;
	while (rc == TIDE_OK && g->is_loading)
		rc = generation_step(g, err);
	generation_destroy(g);
	return rc;
}

int survey_try(const struct trial_spec *spec)
{
	const struct engine_config config = {
		.rules_dir = spec->rules_dir,
		.lua_dir = spec->lua_dir,
		.memory_max_bytes = spec->memory_max_bytes,
		.call_budget_ms = spec->call_budget_ms,
		.secrets_dir = spec->secrets_dir[0] ? spec->secrets_dir : NULL,
		.settings = spec->settings,
	};
	struct error err;
	uv_loop_t loop;
	struct engine *e;

	limit_process(spec);
	/* The broker will log what scripts log while they are loaded. */
	log_configure(LOG_NONE, false);
	uv_loop_init(&loop);
	int rc = engine_open(&e, &loop, &config, NULL, &err);
	if (rc == TIDE_OK) {
		e->scripts.on_file = on_file;
		e->scripts.on_file_ctx = (void *)(uintptr_t)spec;
		rc = load_all(e, &err);
		engine_close(e, NULL, NULL);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	if (rc == TIDE_OK)
		puts("done");
	else
		printf("error %s\n", err.text);
	return rc == TIDE_OK ? 0 : 1;
}
