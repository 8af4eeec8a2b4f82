#include "generation.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "rules/api/api_msg.h"

#define EXTENSION ".lua"
#define SPEC_EXTENSION "_spec.lua" /* tests, which no broker runs */
#define SCRIPT_NAME_MAX 64
#define RULES_MAX 4096

/* ---- the directory ---------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
	size_t text_len = strlen(text), end_len = strlen(end);
	return text_len >= end_len && strcmp(text + text_len - end_len, end) == 0;
}

/* What editors leave lying about (.x.lua.swp, #x.lua#, x.lua~) is no script. */
bool script_kind_is_file(const char *file)
{
	return file[0] != '.' && file[0] != '#' && ends_in(file, EXTENSION) &&
	       !ends_in(file, SPEC_EXTENSION);
}

static int is_script(const struct dirent *entry)
{
	return script_kind_is_file(entry->d_name);
}

static bool is_directory(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The strategy's name from the file's; false when it cannot be one. */
static bool name_of(enum script_kind kind, const char *file,
		    char out[SCRIPT_NAME_MAX + 1])
{
	size_t len = strlen(file) - strlen(EXTENSION);
	if (len == 0 || len > SCRIPT_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool is_first_ok = isalpha((unsigned char)file[i]) || file[i] == '_';
		bool is_ok = isdigit((unsigned char)file[i]) || file[i] == '-';
		/* 10-x.lua: the names of filters are their order. */
		bool is_later = i > 0 || kind == SCRIPT_FILTER;
		if (!is_first_ok && !(is_later && is_ok))
			return false;
	}
	memcpy(out, file, len);
	out[len] = '\0';
	return true;
}

static int load_file(struct generation *g, enum script_kind kind, const char *dir,
		     const char *file, struct error *err)
{
	char path[PATH_MAX], name[SCRIPT_NAME_MAX + 1];
	struct rule *rule;
	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return error_set(err, TIDE_ERULE, "%s: the path is too long", file);
	if (!g->sandbox.from && is_directory(path))
		return TIDE_OK;
	if (!name_of(kind, file, name))
		return error_set(err, TIDE_ERULE,
				 "%s/%s:1: the name of a script is a letter (of a filter "
				 "also a digit), then "
				 "letters, digits, '_' and '-', at most %d in all",
				 script_kind_name(kind), file, SCRIPT_NAME_MAX);
	int status = rule_load(&g->script, &g->sandbox, kind, name, path, &rule, err);
	if (status != TIDE_OK) {
		err->code = TIDE_ERULE;
		return TIDE_ERULE;
	}
	if (g->rule_count == RULES_MAX) {
		rule_destroy(rule);
		return error_set(err, TIDE_ERULE, "more than %d scripts", RULES_MAX);
	}
	g->rules = mem_realloc(g->rules, (g->rule_count + 1) * sizeof(struct rule *));
	g->rules[g->rule_count++] = rule;
	if (!g->sandbox.from)
		source_list_add(&g->sandbox.sources, path, rule->hash);
	return TIDE_OK;
}

/* What is left to load: the rest of the files of a kind, then the kinds after. */
struct generation_loading {
	int kind;
	char dir[PATH_MAX];
	struct dirent **entries;
	int count, next;
};

static void free_entries(struct dirent **entries, int count)
{
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
}

/* The files of a kind, by name; no folder is no files. */
static int list_kind(const struct generation *g, enum script_kind kind,
		     char dir[PATH_MAX], struct dirent ***entries, int *count,
		     struct error *err)
{
	*count = 0;
	*entries = NULL;
	if (snprintf(dir, PATH_MAX, "%s/%s", g->sandbox.rules_dir,
		     script_kind_name(kind)) >= PATH_MAX)
		return error_set(err, TIDE_ERULE,
				 "the rules directory's path is too long");
	*count = scandir(dir, entries, is_script, alphasort);
	if (*count >= 0)
		return TIDE_OK;
	*count = 0;
	if (errno == ENOENT)
		return TIDE_OK;
	return error_set(err, TIDE_ERULE, "%s: cannot be read: %s", dir, strerror(errno));
}

/* The scripts of a kind in a bundle, which are in the same order. */
static void list_bundled(const struct generation *g, enum script_kind kind,
			 struct generation_loading *l)
{
	const struct bundle *from = g->sandbox.from;
	const char *folder = script_kind_name(kind);
	size_t len = strlen(folder);
	snprintf(l->dir, sizeof(l->dir), "%s", folder);
	l->entries = calloc(from->count + 1, sizeof(*l->entries));
	for (size_t i = 0; l->entries && i < from->count; i++) {
		const char *path = from->files[i].path, *file = path + len + 1;
		bool is_here = strncmp(path, folder, len) == 0 && path[len] == '/' &&
			       !strchr(file, '/') && script_kind_is_file(file);
		struct dirent *entry = is_here ? calloc(1, sizeof(*entry)) : NULL;
		if (!entry)
			continue;
		snprintf(entry->d_name, sizeof(entry->d_name), "%s", file);
		l->entries[l->count++] = entry;
	}
}

static int open_kind(struct generation *g, int kind, struct error *err)
{
	struct generation_loading *l = g->loading;
	l->kind = kind;
	l->next = 0;
	if (g->sandbox.from) {
		list_bundled(g, (enum script_kind)kind, l);
		return TIDE_OK;
	}
	return list_kind(g, (enum script_kind)kind, l->dir, &l->entries, &l->count, err);
}

static void end_loading(struct generation *g)
{
	if (g->loading)
		free_entries(g->loading->entries, g->loading->count);
	mem_free(g->loading);
	g->loading = NULL;
}

/* Is there for each of the kind's files a script, and one more of them counted? */
static bool has_same_files(const struct generation *g, enum script_kind kind,
			   size_t *found)
{
	char dir[PATH_MAX], path[PATH_MAX], name[SCRIPT_NAME_MAX + 1];
	struct dirent **entries;
	struct error ignored;
	int count;
	if (list_kind(g, kind, dir, &entries, &count, &ignored) != TIDE_OK)
		return false;
	bool is_same = true;
	for (int i = 0; i < count && is_same; i++) {
		const char *file = entries[i]->d_name;
		int len = snprintf(path, sizeof(path), "%s/%s", dir, file);
		if (len < (int)sizeof(path) && is_directory(path))
			continue;
		is_same = name_of(kind, file, name) &&
			  generation_find(g, kind, slice_from(name));
		*found += is_same;
	}
	free_entries(entries, count);
	return is_same;
}

bool generation_is_current(const struct generation *g)
{
	size_t found = 0;
	if (g->sandbox.from)
		return false;
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++) {
		if (!has_same_files(g, (enum script_kind)kind, &found))
			return false;
	}
	return found == g->rule_count && source_list_is_current(&g->sandbox.sources);
}

/* ---- the state ---------------------------------------------------------------- */

struct opening {
	struct generation *generation;
	const struct generation_config *config;
};

static int l_open(lua_State *L)
{
	struct opening *o = lua_touserdata(L, 1);
	watchdog_adopt(o->config->watchdog, L);
	sandbox_open(L, &o->generation->sandbox);
	api_msg_open(L);
	api_tide_open(L, o->config->tide);
	o->config->open(L, o->config->open_ctx);
	return 0;
}

static int open_state(struct generation *g, const struct generation_config *config,
		      struct error *err)
{
	struct opening opening = { g, config };
	struct script_call call = { .file = "rules", .body = l_open, .ctx = &opening };
	int status =
		script_state_init(&g->script, config->watchdog, config->memory_max_bytes);
	if (status != TIDE_OK)
		return error_set(err, status, "no Lua state fits into %zu bytes",
				 config->memory_max_bytes);
	return script_enter(&g->script, &call, err);
}

int generation_begin(struct generation **out, const struct generation_config *config,
		     struct error *err)
{
	struct generation *g = mem_zalloc(sizeof(*g));
	g->sandbox.rules_dir = config->rules_dir;
	g->sandbox.lua_dir = config->lua_dir;
	g->sandbox.from = config->from;
	g->files = g->sandbox.files = bundle_create();
	g->loading = mem_zalloc(sizeof(*g->loading));
	int status = TIDE_OK;
	if (!config->from && !is_directory(config->rules_dir))
		status = error_set(err, TIDE_ERULE, "there is no rules directory '%s'",
				   config->rules_dir);
	if (status == TIDE_OK)
		status = open_state(g, config, err);
	if (status == TIDE_OK)
		status = open_kind(g, 0, err);
	if (status != TIDE_OK) {
		generation_destroy(g);
		return status;
	}
	g->loaded_unix_ms = api_tide_now_ms(config->tide);
	*out = g;
	return TIDE_OK;
}

int generation_step(struct generation *g, struct error *err)
{
	struct generation_loading *l = g->loading;
	if (l->next < l->count)
		return load_file(g, (enum script_kind)l->kind, l->dir,
				 l->entries[l->next++]->d_name, err);
	free_entries(l->entries, l->count);
	l->entries = NULL;
	l->count = 0;
	if (l->kind + 1 < SCRIPT_KIND_COUNT)
		return open_kind(g, l->kind + 1, err);
	end_loading(g);
	g->hash = bundle_hash(g->files);
	return TIDE_OK;
}

void generation_destroy(struct generation *g)
{
	if (!g)
		return;
	end_loading(g);
	script_state_deinit(&g->script);
	for (size_t i = 0; i < g->rule_count; i++)
		rule_destroy(g->rules[i]);
	source_list_deinit(&g->sandbox.sources);
	mem_free(g->rules);
	mem_free(g->uses);
	bundle_unref(g->files);
	mem_free(g);
}

/* ---- finding ------------------------------------------------------------------- */

struct rule *generation_find(const struct generation *g, enum script_kind kind,
			     struct slice name)
{
	for (size_t i = 0; i < g->rule_count; i++) {
		if (g->rules[i]->kind == kind && slice_is(name, g->rules[i]->name))
			return g->rules[i];
	}
	return NULL;
}

int generation_get(const struct generation *g, enum script_kind kind, struct slice name,
		   struct rule **out, struct error *err)
{
	struct buf names;
	*out = generation_find(g, kind, name);
	if (*out)
		return TIDE_OK;
	buf_init(&names);
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

/* ---- uses ------------------------------------------------------------------------ */

struct using
{
	struct use *use;
	struct rule *rule;
	const struct args *options;
};

/* Push the options of a use: those of every use that was given none are one table. */
static void push_options(lua_State *L, struct rule *rule, const struct args *options)
{
	if (options && options->count) {
		options_push(L, &rule->options, options);
		return;
	}
	if (rule->preset_options == LUA_NOREF) {
		options_push(L, &rule->options, options);
		rule->preset_options = luaL_ref(L, LUA_REGISTRYINDEX);
	}
	lua_rawgeti(L, LUA_REGISTRYINDEX, rule->preset_options);
}

/* Each reference is in the use before the next step may raise. */
static int l_use(lua_State *L)
{
	struct using *u = lua_touserdata(L, 1);
	struct use *use = u->use;
	const struct rule *rule = use->rule;
	script_set_place(script_state_of(L), rule->file, rule->decide_line);
	push_options(L, u->rule, u->options);
	lua_pushvalue(L, -1);
	use->options = luaL_ref(L, LUA_REGISTRYINDEX);
	use->is_pure = rule->pure == RULE_PURE;
	if (rule->pure == RULE_PURE_BY_OPTIONS) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, rule->pure_function);
		lua_pushvalue(L, -2);
		lua_call(L, 1, 1);
		use->is_pure = lua_toboolean(L, -1);
		lua_pop(L, 1);
	}
	if (rule->functions[RULE_NEW] != LUA_NOREF) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, rule->functions[RULE_NEW]);
		lua_pushvalue(L, -2);
		lua_call(L, 1, 1);
		use->state = luaL_ref(L, LUA_REGISTRYINDEX);
	}
	return 0;
}

static struct use *make_room(struct generation *g, size_t number)
{
	if (number >= g->use_count) {
		size_t count = number + number / 2 + 8;
		g->uses = mem_realloc(g->uses, count * sizeof(*g->uses));
		memset(g->uses + g->use_count, 0,
		       (count - g->use_count) * sizeof(*g->uses));
		g->use_count = count;
	}
	return &g->uses[number];
}

int use_open(struct generation *g, size_t number, struct rule *rule,
	     const struct args *options, struct error *err)
{
	char script[SCRIPT_NAME_MAX * 2];
	snprintf(script, sizeof(script), "%s/%s", script_kind_name(rule->kind),
		 rule->name);
	int status = options_check(&rule->options, options, script, err);
	if (status != TIDE_OK)
		return status;
	struct use *use = make_room(g, number);
	*use = (struct use){ .rule = rule, .options = LUA_NOREF, .state = LUA_NOREF };
	struct using using = { use, rule, options };
	struct script_call call = {
		.file = rule->file, .stats = &rule->stats, .body = l_use, .ctx = &using
	};
	status = script_enter(&g->script, &call, err);
	if (status != TIDE_OK)
		use_release(g, number);
	return status;
}

void use_release(struct generation *g, size_t number)
{
	if (number >= g->use_count || !g->uses[number].rule)
		return;
	struct use *use = &g->uses[number];
	/* A reference's slot exists, so giving it back allocates nothing. */
	luaL_unref(g->script.L, LUA_REGISTRYINDEX, use->options);
	luaL_unref(g->script.L, LUA_REGISTRYINDEX, use->state);
	use->rule = NULL;
}
