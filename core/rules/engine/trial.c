#include "trial.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "engine_private.h"
#include "host/log.h"
#include "host/machine.h"
#include "rules/sandbox/bundle.h"

/* Memory for the process itself, in addition to the memory of scripts. */
#define ROOM_BYTES ((rlim_t)512 << 20)

/* A sanitizer reserves terabytes of addresses. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_LIMIT 0
#else
#define HAS_ADDRESS_LIMIT 1
#endif

static void limit(int what, rlim_t value)
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
		limit(RLIMIT_CPU,
		      (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 +
			       TRIAL_FILE_S + spec->call_budget_ms / 1000));
}

static void limit_process(const struct trial_spec *spec)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	limit(RLIMIT_CORE, 0);
	if (HAS_ADDRESS_LIMIT)
		limit(RLIMIT_AS, spec->memory_max_bytes + ROOM_BYTES);
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

static int load(struct engine *e, struct error *err)
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

int trial_run(const struct trial_spec *spec)
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
		rc = load(e, &err);
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
