#include "inspect.h"

#include <string.h>
#include <uv.h>

#include "engine_private.h"

#define INSPECT_MEMORY_BYTES ((size_t)64 << 20)
#define INSPECT_BUDGET_MS 1000

/* ---- loading -------------------------------------------------------------------- */

/* The engine that the generation's functions belong to; it has no scripts. */
static int open_engine(const struct inspection *in, uv_loop_t *loop, struct engine **out,
		       struct error *err)
{
	const struct error none = { .code = TIDE_OK };
	struct bundle *empty = bundle_create();
	const struct engine_config config = {
		.rules_dir = in->rules_dir,
		.lua_dir = in->lua_dir,
		.memory_max_bytes = INSPECT_MEMORY_BYTES,
		.call_budget_ms = INSPECT_BUDGET_MS,
		.last_good = empty,
		.refusal = &none,
	};
	int status = engine_create(out, loop, &config, NULL, err);
	bundle_unref(empty);
	return status;
}

/* Each step loads a file; one that fails leaves the others as they are. */
static struct generation *load_all(struct inspection *in, struct engine *e)
{
	const struct generation_config config = {
		.rules_dir = in->rules_dir,
		.lua_dir = in->lua_dir,
		.watchdog = e->watchdog,
		.memory_max_bytes = INSPECT_MEMORY_BYTES,
		.tide = &e->tide,
		.open = build_open_api,
		.open_ctx = e,
	};
	struct generation *g;
	struct error err;
	if (generation_begin(&g, &config, &err) != TIDE_OK) {
		findings_add_error(in->findings, "", err.text);
		return NULL;
	}
	in->is_complete = true;
	while (g->loading) {
		if (generation_step(g, &err) == TIDE_OK)
			continue;
		in->is_complete = false;
		findings_add_error(in->findings, "", err.text);
	}
	return g;
}

static bool has_rule(const struct generation *g, const char *path)
{
	for (size_t i = 0; i < g->rule_count; i++)
		if (strcmp(g->rules[i]->file, path) == 0)
			return true;
	return false;
}

static struct bundle *collect_good(const struct generation *g)
{
	struct bundle *good = bundle_create();
	for (size_t i = 0; i < g->files->count; i++) {
		const struct bundle_file *file = &g->files->files[i];
		if (!script_kind_is_path(file->path) || has_rule(g, file->path))
			bundle_add(good, file->path,
				   (struct slice){ file->text, file->len });
	}
	return good;
}

/* ---- matches --------------------------------------------------------------------- */

/* In a pattern `*` and `#` are words; elsewhere they are letters like others. */
static bool has_lost_wildcard(const char *pattern)
{
	for (size_t len; *pattern; pattern += len + (pattern[len] == '.')) {
		len = strcspn(pattern, ".");
		if (len > 1 && strcspn(pattern, "*#") < len)
			return true;
	}
	return false;
}

static void inspect_match(const struct inspection *in, const struct rule *r)
{
	if (!r->match_exchange)
		return;
	if (strcmp(r->match_exchange, "*") != 0 && strpbrk(r->match_exchange, "*#"))
		findings_add(in->findings, r->file, r->decide_line,
			     "match.exchange is '%s': that is a name and no pattern, so "
			     "the filter is hardly ever called; say the name of an "
			     "exchange, '-' for the default one or '*' for all",
			     r->match_exchange);
	if (has_lost_wildcard(r->match_key))
		findings_add(in->findings, r->file, r->decide_line,
			     "match.key is '%s': '*' and '#' stand for whole words, and "
			     "inside of a word for themselves; words are separated by "
			     "dots",
			     r->match_key);
}

/* ---- all of it -------------------------------------------------------------------- */

static void inspect_loaded(struct inspection *in, struct generation *g)
{
	in->good = collect_good(g);
	for (size_t i = 0; i < g->rule_count; i++)
		inspect_match(in, g->rules[i]);
	inspect_names(in, g);
}

void inspect_rules(struct inspection *in)
{
	struct engine *e;
	struct error err;
	uv_loop_t loop;
	in->good = NULL;
	in->is_complete = false;
	uv_loop_init(&loop);
	if (open_engine(in, &loop, &e, &err) == TIDE_OK) {
		struct generation *g = load_all(in, e);
		if (g)
			inspect_loaded(in, g);
		generation_destroy(g);
		engine_close(e, NULL, NULL);
	} else {
		findings_add_error(in->findings, "", err.text);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
}
