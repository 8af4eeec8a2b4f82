/* dry_run.h: deciding without doing, for EXPLAIN.
 *
 * In a decision whose context is a dry run the same scripts are called as for a
 * publish, but nothing of them remains: the calls are not counted in RULES status, what
 * a strategy writes into its `state` is lost, and functions that change anything (a
 * counter, a bucket, a shared table) ask decision_context_is_dry and only compute. A
 * script asks tide.is_dry_run(). */
#pragma once

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

#define DRY_RUN_SCRIPTS_MAX 64

/* What the calls have cost, by script; those beyond the limit are left out. */
struct dry_run {
	struct dry_run_script {
		const char *file; /* the generation's */
		uint64_t calls;
		uint64_t time_ns;
	} scripts[DRY_RUN_SCRIPTS_MAX];
	size_t count;
};

void dry_run_count(struct dry_run *run, const char *file, uint64_t time_ns);

/* Push what a strategy gets as its state: the value of the reference, or in a
 * dry run a table that looks like it, and whose changes nobody else sees. */
void dry_run_push_state(lua_State *L, int reference);
