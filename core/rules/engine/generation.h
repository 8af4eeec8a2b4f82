/* generation.h: all scripts of the rules directory in one Lua state, and their uses.
 *
 * Where the directory has no script of a name, the generation has the shipped one, if
 * there is one. A shipped script is never active by itself.
 *
 * A use is a script with the options of one queue or exchange. A use of a routing script
 * is the index that the script builds from the bindings. The same number means the same
 * use in each generation: a handle of the engine works with any of them. A second
 * generation may stand beside the active one. */
#pragma once

#include "rules/api/api_tide.h"
#include "rules/api/document.h"
#include "rules/sandbox/bundle.h"
#include "rule.h"
#include "rules_dir.h"

#define GENERATION_RULES_MAX 4096

/* The configuration that the generations of an engine share. */
struct generation_config {
	const char *rules_dir;
	const char *lua_dir;
	struct watchdog *watchdog;
	size_t memory_max_bytes;
	struct api_tide *tide;
	void (*open)(lua_State *L, void *ctx); /* adds the engine's own; may raise */
	void *open_ctx;
	/* See struct sandbox. */
	int (*on_file)(void *ctx, const char *path, const struct bundle_file *file,
		       struct error *err);
	void *on_file_ctx;
};

struct generation {
	const struct generation_config *config; /* the engine's */
	struct script_state script;
	struct documents documents; /* what scripts look into */
	struct sandbox sandbox;
	struct rule **rules; /* by kind, then by name */
	size_t rule_count;
	struct rule *by_name[SCRIPT_KINDS_MAX];       /* uthash */
	unsigned authenticate_count, authorize_count; /* of the scripts of auth/ */
	struct use *uses;                             /* by number */
	size_t use_count;
	bool must_carry; /* one of the uses, or more */
	int64_t loaded_unix_ms;
	struct bundle *files; /* what was loaded, without the framework */
	uint64_t hash;        /* of the files */
	bool is_loading;
	/* The files that are left to load: those of a kind, and the shipped ones,
	 * from `next` and `next_shipped` on, then further kinds. */
	struct generation_rest {
		enum script_kind kind;
		struct rules_dir_list files, shipped;
		size_t next, next_shipped;
	} rest;
};

/* Load every script in steps, for a loop that must not block: begin, then step while
 * `is_loading`. A step loads one file. TIDE_ERULE with file and line: the file
 * fails; further steps load the others.
 *
 * @param from  instead of the rules directory; NULL: the directory */
TIDE_MUST_USE int generation_begin(struct generation **out,
				   const struct generation_config *config,
				   const struct bundle *from, struct error *err);
TIDE_MUST_USE int generation_step(struct generation *g, struct error *err);

/* Read the directory: has it the files of the generation? */
bool generation_is_current(const struct generation *g);

/* Accepts NULL. From any thread, when nobody uses the generation. */
void generation_destroy(struct generation *g);

/* The file of one of its scripts, as it was read. NULL: it is not kept any more. */
const struct bundle_file *generation_file(const struct generation *g,
					  const struct rule *rule);

struct rule *generation_find(const struct generation *g, enum script_kind kind,
			     struct slice name);
/* TIDE_ENOTFOUND: the error names the scripts of the kind. */
TIDE_MUST_USE int generation_get(const struct generation *g, enum script_kind kind,
				 struct slice name, struct rule **out, struct error *err);
