/* dry_run.h: deciding without doing, for EXPLAIN.
 *
 * Between begin and end the same calls are made as for a publish, but nothing
 * of them remains: the calls are not counted in RULES status, tide.random goes
 * on from where it was, what a strategy writes into its `state` is lost, and
 * functions that change anything (a counter, a bucket, a shared table) ask
 * engine_is_dry_run and only compute. A script asks tide.is_dry_run(). */
#ifndef TIDE_RULES_API_DRY_RUN_H
#define TIDE_RULES_API_DRY_RUN_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRY_RUN_SCRIPTS_MAX 64

struct engine;

/* What the calls have cost, by script; those beyond the limit are left out. */
struct dry_run {
	struct dry_run_script {
		const char *file; /* the generation's */
		uint64_t calls;
		uint64_t time_ns;
	} scripts[DRY_RUN_SCRIPTS_MAX];
	size_t count;
	bool is_hushed;
	uint64_t random_state;
};

/* `run` is filled until the end. No reload in between; they do not nest. */
void engine_dry_run_begin(struct engine *e, struct dry_run *run);
void engine_dry_run_end(struct engine *e);

/* Calls from here on are not counted in `run`, or are again. */
void engine_dry_run_hush(struct engine *e, bool is_hushed);

/* For functions that Lua calls: the call under way must change nothing. */
bool engine_is_dry_run(lua_State *L);

/* ---- for the engine's own files -------------------------------------------- */

void dry_run_count(struct dry_run *run, const char *file, uint64_t time_ns);

/* Push what a strategy gets as its state: the value of the reference, or in a
 * dry run a table that looks like it, and whose changes nobody else sees. */
void dry_run_push_state(lua_State *L, int reference);

#endif
