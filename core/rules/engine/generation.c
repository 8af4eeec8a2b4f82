#include "generation.h"

#include <lauxlib.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "rules/api/draft.h"

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The script's name from the file's; false when it cannot be one. */
static bool name_of(enum script_kind kind, const char *file,
		    char out[SCRIPT_NAME_MAX + 1])
{
	struct slice name = { file, strlen(file) - strlen(".lua") };

	if (!script_kind_is_name(kind, name))
		return false;
	memcpy(out, name.data, name.len);
	out[name.len] = '\0';
	return true;
}

static bool make_path(const struct generation *g, enum script_kind kind, const char *file,
		      char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s/%s/%s", g->sandbox.rules_dir,
			script_kind_name(kind), file) < PATH_MAX;
}

static int load_file(struct generation *g, enum script_kind kind, const char *file,
		     bool is_shipped, struct error *err)
{
	char path[PATH_MAX], name[SCRIPT_NAME_MAX + 1];
	struct rule_place place = { kind, name, is_shipped };
	struct rule *rule;

	if (!make_path(g, kind, file, path))
		return error_set(err, TIDE_ERULE, "%s: the path is too long", file);
	if (!is_shipped && !g->sandbox.from && is_directory(path))
		return TIDE_OK;
	if (!name_of(kind, file, name))
		return error_set(err, TIDE_ERULE,
				 "%s/%s:1: the name of a script is a letter%s, then "
				 "letters, digits, '_' and '-', at most %d in all",
				 script_kind_name(kind), file,
				 script_kind_is_ordered(kind) ? " or a digit" : "",
				 SCRIPT_NAME_MAX);
	int rc = rule_load(&g->script, &g->sandbox, &place, &rule, err);
	if (rc != TIDE_OK) {
		err->code = TIDE_ERULE;
		return TIDE_ERULE;
	}
	/* In a checkout somebody may try rules in the shipped directory. */
	if (is_shipped && rule_is_active(rule)) {
		rule_destroy(rule);
		return TIDE_OK;
	}
	if (g->rule_count == GENERATION_RULES_MAX) {
		rule_destroy(rule);
		return error_set(err, TIDE_ERULE, "more than %d scripts",
				 GENERATION_RULES_MAX);
	}
	g->rules = mem_realloc(g->rules, (g->rule_count + 1) * sizeof(struct rule *));
	g->rules[g->rule_count++] = rule;
	HASH_ADD_KEYPTR(hh, g->by_name[kind], rule->name, strlen(rule->name), rule);
	g->must_carry |= rule->own.must_carry;
	if (kind == SCRIPT_AUTH && rule_is_active(rule)) {
		g->authenticate_count += rule->functions[RULE_AUTHENTICATE] != LUA_NOREF;
		g->authorize_count += rule->functions[RULE_DECIDE] != LUA_NOREF;
	}
	return TIDE_OK;
}

static int open_kind(struct generation *g, enum script_kind kind, struct error *err)
{
	struct generation_rest *l = &g->rest;

	char shipped[PATH_MAX];

	rules_dir_list_free(&l->files);
	rules_dir_list_free(&l->shipped);
	l->kind = kind;
	l->next = l->next_shipped = 0;
	snprintf(shipped, sizeof(shipped), "%s/" SANDBOX_SHIPPED_DIR, g->sandbox.lua_dir);
	int rc = rules_dir_list(&l->shipped, shipped, kind, err);
	if (rc == TIDE_OK && !g->sandbox.from)
		return rules_dir_list(&l->files, g->sandbox.rules_dir, kind, err);
	if (rc == TIDE_OK)
		rules_dir_list_bundle(&l->files, g->sandbox.from, kind);
	return rc;
}

/* The next file of the kind by name. A file hides the shipped one of its name. NULL:
 * there is none. */
static const char *take_next(struct generation_rest *l, bool *is_shipped)
{
	const char *own = l->next < l->files.count ? l->files.names[l->next] : NULL;
	const char *shipped = l->next_shipped < l->shipped.count
				      ? l->shipped.names[l->next_shipped]
				      : NULL;
	int order = !own ? 1 : !shipped ? -1 : strcmp(own, shipped);

	*is_shipped = order > 0;
	l->next += own && order <= 0;
	l->next_shipped += shipped && order >= 0;
	return *is_shipped ? shipped : own;
}

/* Does the generation have a script for each of the kind's files? Counts them. */
static bool has_same_files(const struct generation *g, enum script_kind kind,
			   size_t *found)
{
	char path[PATH_MAX], name[SCRIPT_NAME_MAX + 1];
	struct rules_dir_list files;
	struct error ignored;
	bool is_same =
		rules_dir_list(&files, g->sandbox.rules_dir, kind, &ignored) == TIDE_OK;

	for (size_t i = 0; i < files.count && is_same; i++) {
		if (make_path(g, kind, files.names[i], path) && is_directory(path))
			continue;
		const struct rule *rule =
			name_of(kind, files.names[i], name)
				? generation_find(g, kind, slice_from(name))
				: NULL;
		is_same = rule && !rule->is_shipped;
		*found += is_same;
	}
	rules_dir_list_free(&files);
	return is_same;
}

bool generation_is_current(const struct generation *g)
{
	size_t found = 0, own = 0;

	for (size_t i = 0; i < g->rule_count; i++)
		own += !g->rules[i]->is_shipped;
	for (unsigned kind = 0; kind < script_kind_count; kind++) {
		if (!has_same_files(g, (enum script_kind)kind, &found))
			return false;
	}
	return found == own && bundle_is_current(g->files, g->sandbox.rules_dir) &&
	       bundle_is_current(g->sandbox.framework, g->sandbox.lua_dir);
}

static int l_open(lua_State *L)
{
	struct generation *g = lua_touserdata(L, 1);
	const struct generation_config *config = g->config;

	sandbox_open(L, &g->sandbox);
	api_msg_open(L);
	api_tide_open(L, config->tide);
	config->open(L, config->open_ctx);
	return 0;
}

static int open_state(struct generation *g, struct error *err)
{
	const struct generation_config *config = g->config;
	struct script_call call = {
		.file = "rules", .account = &g->script.own, .body = l_open, .ctx = g
	};
	int rc =
		script_state_init(&g->script, config->watchdog, config->memory_max_bytes);

	if (rc != TIDE_OK)
		return error_set(err, rc, "no Lua state fits into %zu bytes",
				 config->memory_max_bytes);
	g->script.documents = &g->documents;
	g->script.hidden = &config->tide->secrets.hidden;
	return script_enter(&g->script, &call, err);
}

int generation_begin(struct generation **out, const struct generation_config *config,
		     const struct bundle *from, struct error *err)
{
	struct generation *g = mem_zalloc(sizeof(*g));

	g->sandbox.rules_dir = config->rules_dir;
	g->sandbox.lua_dir = config->lua_dir;
	g->sandbox.from = from;
	g->sandbox.on_file = config->on_file;
	g->sandbox.on_file_ctx = config->on_file_ctx;
	g->files = g->sandbox.files = bundle_create();
	g->sandbox.framework = bundle_create();
	g->config = config;
	g->is_loading = true;
	int rc = TIDE_OK;
	if (!from && !is_directory(config->rules_dir))
		rc = error_set(err, TIDE_ERULE, "there is no rules directory '%s'",
			       config->rules_dir);
	if (rc == TIDE_OK)
		rc = open_state(g, err);
	if (rc == TIDE_OK)
		rc = open_kind(g, 0, err);
	if (rc != TIDE_OK) {
		generation_destroy(g);
		return rc;
	}
	g->loaded_unix_ms = api_tide_now_ms(config->tide);
	*out = g;
	return TIDE_OK;
}

int generation_step(struct generation *g, struct error *err)
{
	struct generation_rest *l = &g->rest;
	bool is_shipped;
	const char *file = take_next(l, &is_shipped);

	if (file)
		return load_file(g, l->kind, file, is_shipped, err);
	if (l->kind + 1 < script_kind_count)
		return open_kind(g, l->kind + 1, err);
	g->is_loading = false;
	g->hash = bundle_hash(g->files);
	return TIDE_OK;
}

void generation_destroy(struct generation *g)
{
	if (!g)
		return;
	rules_dir_list_free(&g->rest.files);
	rules_dir_list_free(&g->rest.shipped);
	script_state_deinit(&g->script);
	document_deinit(&g->documents);
	for (unsigned kind = 0; kind < script_kind_count; kind++)
		HASH_CLEAR(hh, g->by_name[kind]);
	for (size_t i = 0; i < g->rule_count; i++)
		rule_destroy(g->rules[i]);
	bundle_unref(g->sandbox.framework);
	mem_free(g->rules);
	mem_free(g->uses);
	bundle_unref(g->files);
	mem_free(g);
}

const struct bundle_file *generation_file(const struct generation *g,
					  const struct rule *rule)
{
	char name[SCRIPT_PLACE_MAX];

	if (!rule->is_shipped)
		return bundle_find(g->files, rule->file);
	snprintf(name, sizeof(name), SANDBOX_SHIPPED_DIR "/%s",
		 rule->file + strlen(SANDBOX_SHIPPED));
	return bundle_find(g->sandbox.framework, name);
}

struct rule *generation_find(const struct generation *g, enum script_kind kind,
			     struct slice name)
{
	struct rule *rule;

	HASH_FIND(hh, g->by_name[kind], name.data, name.len, rule);
	return rule;
}

int generation_get(const struct generation *g, enum script_kind kind, struct slice name,
		   struct rule **out, struct error *err)
{
	struct buf names = { 0 };

	*out = generation_find(g, kind, name);
	if (*out)
		return TIDE_OK;
	for (size_t i = 0; i < g->rule_count; i++) {
		if (g->rules[i]->kind == kind)
			buf_printf(&names, " %s", g->rules[i]->name);
	}
	error_set(err, TIDE_ENOTFOUND,
		  "there is no %s script '%" SLICE_FMT "'; there are:%s",
		  script_kind_name(kind), SLICE_ARG(name),
		  buf_len(&names) ? buf_cstr(&names) : " none");
	buf_deinit(&names);
	return TIDE_ENOTFOUND;
}
