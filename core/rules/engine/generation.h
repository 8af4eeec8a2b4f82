/* generation.h: all scripts of the rules directory in one Lua state, and their
 * uses.
 *
 * A use is a script with the options of one queue or exchange: for routing the
 * index that the script built from the bindings. The engine numbers the uses,
 * and the same number means the same use in each generation; so a handle of the
 * engine is good in whichever generation is asked, and a second generation may
 * stand beside the one in force. */
#ifndef TIDE_RULES_ENGINE_GENERATION_H
#define TIDE_RULES_ENGINE_GENERATION_H

#include "rules/api/api_tide.h"
#include "rules/sandbox/bundle.h"
#include "rule.h"

struct generation_config {
	const char *rules_dir;
	const struct bundle *from; /* in the place of rules_dir; NULL: files */
	const char *lua_dir;
	struct watchdog *watchdog;
	size_t memory_max_bytes;
	struct api_tide *tide;
	void (*open)(lua_State *L, void *ctx); /* adds the engine's own; may raise */
	void *open_ctx;
};

struct use;
struct generation_loading;

struct generation {
	struct script_state script;
	struct sandbox sandbox;
	struct rule **rules; /* by kind, then by name */
	size_t rule_count;
	struct use *uses; /* by number */
	size_t use_count;
	bool must_carry; /* one of the uses, or more */
	int64_t loaded_unix_ms;
	struct bundle *files;               /* what was loaded, the framework excepted */
	uint64_t hash;                      /* of the files */
	struct generation_loading *loading; /* NULL: everything is loaded */
};

/* Load every script in steps, for a loop that must not stall: begin, then step until
 * `loading` is NULL. A step loads one file. TIDE_ERULE with file and line of the first
 * that fails; after a failed step, destroy. */
TIDE_MUST_USE int generation_begin(struct generation **out,
				   const struct generation_config *config,
				   struct error *err);
TIDE_MUST_USE int generation_step(struct generation *g, struct error *err);

/* Are the files still those that the generation was loaded from? Reads them. Of one
 * from a bundle they never are. */
bool generation_is_current(const struct generation *g);

/* Accepts NULL. Any thread, for one that nobody uses. */
void generation_destroy(struct generation *g);

struct rule *generation_find(const struct generation *g, enum script_kind kind,
			     struct slice name);
/* TIDE_ENOTFOUND, with a text that names the scripts of the kind that there are. */
TIDE_MUST_USE int generation_get(const struct generation *g, enum script_kind kind,
				 struct slice name, struct rule **out, struct error *err);

#endif
