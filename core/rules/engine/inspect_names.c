/* inspect_names.c: files whose names do not do what they seem to: scripts that
 * no broker loads, modules that no `require` finds, two files of one name. */

#include <ctype.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "host/log.h"
#include "engine_private.h"
#include "inspect.h"

#define EXTENSION ".lua"
#define FOLDER_MAX 32 /* longer names are nobody's slip */

struct names {
	const struct inspection *in;
	const struct generation *g;
	char **paths; /* of all files of Lua, relative to the directory, sorted */
	size_t count, cap;
};

static bool ends_in(const char *text, const char *end)
{
	size_t text_len = strlen(text), end_len = strlen(end);
	return text_len >= end_len && strcmp(text + text_len - end_len, end) == 0;
}

static bool is_first_folder(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

/* The folder of a kind that the path is in; NULL for another. */
static const char *kind_folder(const char *path)
{
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++) {
		const char *name = script_kind_name((enum script_kind)kind);
		if (is_first_folder(path, name))
			return name;
	}
	return NULL;
}

/* It was read: as a script, or since a script requires it. */
static bool is_read(const struct names *n, const char *path)
{
	return bundle_find(n->g->files, path) != NULL;
}

/* ---- the directory ------------------------------------------------------------------
 */

static void add_path(struct names *n, const char *path)
{
	if (n->count == n->cap) {
		n->cap = n->cap * 2 + 64;
		n->paths = mem_realloc(n->paths, n->cap * sizeof(*n->paths));
	}
	n->paths[n->count++] = mem_strdup(path);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void visit(struct names *n, FTS *tree, FTSENT *entry, size_t skip)
{
	const char *path = entry->fts_path + skip;
	if (entry->fts_level == 0 || entry->fts_info == FTS_DP)
		return;
	if (entry->fts_info == FTS_D && entry->fts_name[0] == '.') {
		fts_set(tree, entry, FTS_SKIP);
	} else if (entry->fts_info == FTS_D && ends_in(path, EXTENSION)) {
		findings_add(n->in->findings, path, 1,
			     "is a folder, and a script is a file; nothing in it is "
			     "loaded");
	} else if (entry->fts_info != FTS_D && script_kind_is_file(entry->fts_name)) {
		add_path(n, path);
	}
}

static void list_files(struct names *n)
{
	char *roots[] = { (char *)n->in->rules_dir, NULL };
	FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
	FTSENT *entry;
	size_t skip = strlen(roots[0]);
	if (!tree)
		return;
	skip += roots[0][skip - 1] != '/';
	while ((entry = fts_read(tree)))
		visit(n, tree, entry, skip);
	fts_close(tree);
	if (n->count)
		qsort(n->paths, n->count, sizeof(*n->paths), by_name);
}

/* ---- files that nobody reads ---------------------------------------------------------
 */

static void check_framework_name(const struct names *n, const char *path)
{
	if (!is_first_folder(path, "tide"))
		return;
	findings_add(n->in->findings, path, 1,
		     "no script can have this file: names that begin with 'tide.' are "
		     "the framework's (require \"tide.topic_trie\"); put it into another "
		     "folder");
}

/* filter/eu/x.lua: only the files of the folder itself are scripts. */
static void check_depth(const struct names *n, const char *path)
{
	const char *folder = kind_folder(path);
	if (!folder || !strchr(path + strlen(folder) + 1, '/') || is_read(n, path))
		return;
	findings_add(n->in->findings, path, 1,
		     "is not loaded: scripts are the files of %s/ itself, not of folders "
		     "in it, and no script requires this one; move it up",
		     folder);
}

/* `require "a.b"` is a/b.lua, never a/b/init.lua. */
static void check_init(const struct names *n, const char *path)
{
	static const char init[] = "/init" EXTENSION;
	if (!ends_in(path, init) || is_read(n, path) || kind_folder(path))
		return;
	char *name = mem_strndup(path, strlen(path) - strlen(init));
	char *module = mem_strdup(name);
	for (char *c = module; *c; c++)
		*c = *c == '/' ? '.' : *c;
	findings_add(n->in->findings, path, 1,
		     "no script has this file: require \"%s\" is %s.lua, and 'init' "
		     "means nothing here; call it %s.lua",
		     module, name, name);
	mem_free(module);
	mem_free(name);
}

/* Letters to change, to add or to leave out to make one of the other. */
static size_t distance(const char *a, size_t a_len, const char *b)
{
	size_t row[FOLDER_MAX + 1], b_len = strlen(b);
	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t corner = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			bool is_same = tolower((unsigned char)a[i - 1]) == b[j - 1];
			size_t best = corner + !is_same;
			corner = row[j];
			best = row[j] + 1 < best ? row[j] + 1 : best;
			row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
		}
	}
	return row[b_len];
}

/* "retries" for "retry" */
static bool is_plural_of(const char *folder, size_t len, const char *name)
{
	size_t stem = strlen(name) - 1;
	return name[stem] == 'y' && len == stem + 3 &&
	       strncasecmp(folder, name, stem) == 0 &&
	       strncasecmp(folder + stem, "ies", 3) == 0;
}

/* filters/x.lua, Retry/x.lua, priorty/x.lua */
static void check_folder(const struct names *n, const char *path)
{
	size_t len = strcspn(path, "/");
	if (path[len] != '/' || len > FOLDER_MAX || kind_folder(path) || is_read(n, path))
		return;
	for (int kind = 0; kind < SCRIPT_KIND_COUNT; kind++) {
		const char *name = script_kind_name((enum script_kind)kind);
		if (distance(path, len, name) > 2 && !is_plural_of(path, len, name))
			continue;
		findings_add(n->in->findings, path, 1,
			     "is not loaded: the folder of %s scripts is %s/, not %.*s/",
			     name, name, (int)len, path);
		return;
	}
}

/* ---- two files of one name
 * -------------------------------------------------------------
 */

static void check_case(const struct names *n, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (strcasecmp(n->paths[i], n->paths[at]) != 0)
			continue;
		findings_add(n->in->findings, n->paths[at], 1,
			     "has the name of %s but for capitals: a file system that "
			     "does not tell them apart keeps one of the two; give it "
			     "another name",
			     n->paths[i]);
		return;
	}
}

static bool is_active(const struct rule *r)
{
	return r->kind == SCRIPT_FILTER ? r->match_exchange != NULL
					: r->schedule && r->schedule->is_active;
}

/* What follows the number of "10-orders"; the number in `*order`, -1 for none. */
static const char *split_order(const char *name, long *order)
{
	size_t digits = strspn(name, "0123456789");
	*order = digits && digits < 10 ? strtol(name, NULL, 10) : -1;
	if (digits && (name[digits] == '-' || name[digits] == '_'))
		digits++;
	return name + digits;
}

/* May one message come to both? */
static bool have_exchange_in_common(const struct rule *a, const struct rule *b)
{
	return strcmp(a->match_exchange, "*") == 0 ||
	       strcmp(b->match_exchange, "*") == 0 ||
	       strcmp(a->match_exchange, b->match_exchange) == 0;
}

static bool compare_filters(const struct names *n, const struct rule *first,
			    const struct rule *second)
{
	long first_order, second_order;
	const char *first_name = split_order(first->name, &first_order);
	const char *second_name = split_order(second->name, &second_order);
	if (!have_exchange_in_common(first, second))
		return false;
	if (first_name[0] && strcmp(first_name, second_name) == 0)
		findings_add(
			n->in->findings, second->file, second->decide_line,
			"has the name of %s but for its number, and both are active: "
			"is one of them a copy that was left behind? Remove one, or "
			"its match, or give it another name",
			first->file);
	else if (first_order > second_order && second_order >= 0)
		findings_add(n->in->findings, second->file, second->decide_line,
			     "comes after %s although its number is lower: names are "
			     "compared as texts; write numbers of the same length",
			     first->file);
	else
		return false;
	return true;
}

/* A copy that was left behind would refuse, copy or publish a second time. Whether
 * something was found. */
static bool compare_rules(const struct names *n, const struct rule *first,
			  const struct rule *second)
{
	if (first->kind != second->kind || !is_active(first) || !is_active(second))
		return false;
	if (first->hash == second->hash)
		findings_add(n->in->findings, second->file, second->decide_line,
			     "is the same as %s, and both are active: whatever they do "
			     "is done twice; remove one of them",
			     first->file);
	else
		return first->kind == SCRIPT_FILTER && compare_filters(n, first, second);
	return true;
}

static void close_names(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		mem_free(n->paths[i]);
	mem_free(n->paths);
}

static void check_unread(const struct names *n)
{
	for (size_t i = 0; i < n->count; i++) {
		check_framework_name(n, n->paths[i]);
		check_depth(n, n->paths[i]);
		check_init(n, n->paths[i]);
		check_folder(n, n->paths[i]);
	}
}

void inspect_unread(const struct inspection *in, const struct generation *g)
{
	struct names n = { .in = in, .g = g };
	list_files(&n);
	check_unread(&n);
	close_names(&n);
}

void inspect_names(const struct inspection *in, const struct generation *g)
{
	struct names n = { .in = in, .g = g };
	list_files(&n);
	check_unread(&n);
	for (size_t i = 0; i < n.count; i++)
		check_case(&n, i);
	close_names(&n);
	for (size_t i = 0; i < g->rule_count; i++)
		for (size_t j = 0; j < i && !compare_rules(&n, g->rules[j], g->rules[i]);
		     j++)
			;
}

/* ---- for a broker
 * -----------------------------------------------------------------------
 */

void inspect_warn(const char *about, const char *rules_dir, const struct generation *g,
		  uint64_t *known)
{
	struct findings f;
	struct inspection in = { .findings = &f, .rules_dir = rules_dir };
	uint64_t hash = 0;
	findings_init(&f, NULL);
	inspect_unread(&in, g);
	for (size_t i = 0; i < f.count; i++)
		hash = hash * 31 + source_hash(f.items[i].file, strlen(f.items[i].file));
	for (size_t i = 0; i < f.count && hash != *known; i++)
		log_warn("%s: %s %s", about, f.items[i].file, f.items[i].text);
	*known = hash;
	findings_deinit(&f);
}
