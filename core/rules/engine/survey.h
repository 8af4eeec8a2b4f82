/* survey.h: every script of a rules directory, loaded only to be looked at.
 *
 * A broker refuses a directory at the first script that does not load. A survey
 * reports that script and goes on with the next. It has an engine and an event loop of
 * its own, and runs no decision. */
#pragma once

#include "rule.h"
#include "rules/api/api_tide.h"
#include "rules_dir.h"

struct bundle;
struct survey;

struct survey_spec {
	const char *rules_dir;
	const char *lua_dir;
	const struct args *settings;
	api_option_fn *check_option;
};

/* Loads all scripts. Calls `on_error` for each that does not load, with a text that
 * begins with file and line. Always gives a survey, if need be one without scripts. */
struct survey *survey_open(const struct survey_spec *spec,
			   void (*on_error)(void *ctx, const char *text), void *ctx);
void survey_close(struct survey *s);

/* Every script loaded. */
bool survey_is_complete(const struct survey *s);
/* The scripts that load, by kind, then by name. */
struct rule *const *survey_scripts(const struct survey *s, size_t *count);
/* The scripts and the modules that they require, as they were read, with those that do
 * not load. NULL when the directory cannot be read. */
const struct bundle *survey_files(const struct survey *s);
/* rules_dir_each_unread for the directory. */
void survey_each_unread(const struct survey *s, rules_dir_unread_fn *on_file, void *ctx);

/* A trial: a rules directory loaded once, in a process that may die of it.
 *
 * The broker runs this in a child (rollout/trials.c) before it loads the rules itself. A
 * script that crashes the process, hangs in it or eats its memory does so here. No
 * decision is asked: files are run, and the tables that they return are checked.
 *
 * The process tells on standard output how far it is, a line for each step:
 *
 *   file HASH PATH   this file is run next, with this content
 *   error TEXT       the rules are refused, with file and line; the end
 *   done             all of them load */

/* Processor time for one file, in seconds. The budget of a call applies too. */
#define SURVEY_FILE_S 5

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
int survey_try(const struct trial_spec *spec);
