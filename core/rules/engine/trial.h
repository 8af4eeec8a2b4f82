/* trial.h: a rules directory loaded once, in a process that may die of it.
 *
 * The broker runs this in a child (rollout/trials.c) before it loads the rules itself. A
 * script that crashes the process, hangs in it or eats its memory does so here. Nothing
 * is decided: files are run, and the tables that they return are checked.
 *
 * The process tells on standard output how far it is, a line for each step:
 *
 *   file HASH PATH   this file is run next, with this content
 *   error TEXT       the rules are refused, with file and line; the end
 *   done             all of them load */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/args.h"

/* Processor time for one file, in seconds. The budget of a call applies too. */
#define TRIAL_FILE_S 5

struct trial_spec {
	const char *rules_dir;
	const char *lua_dir;
	size_t memory_max_bytes;
	int64_t call_budget_ms;
	/* Files must lie below this path, which has no links, and may be changed by
	 * those alone who may change `owned_like`; "": anywhere, by anybody. */
	const char *within;
	const char *owned_like;
	const char *secrets_dir; /* "": none */
	const struct args *settings;
};

/* The status for exit: 0 when all is loaded. */
int trial_run(const struct trial_spec *spec);
