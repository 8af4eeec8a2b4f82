#include "survey.h"

#include "base/mem.h"
#include "engine_private.h"

#define SURVEY_MEMORY_BYTES ((size_t)64 << 20)
#define SURVEY_BUDGET_MS 1000

struct survey {
	uv_loop_t loop;
	struct engine *engine;         /* without scripts; NULL if it cannot be */
	struct generation *generation; /* its functions belong to the engine */
	bool is_complete;
};

static int begin(struct survey *s, const struct survey_spec *spec, struct error *err)
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
	if (begin(s, spec, &err) != TIDE_OK) {
		on_error(ctx, err.text);
		return s;
	}
	s->is_complete = true;
	/* Each step loads a file; one that fails leaves the others as they are. */
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
