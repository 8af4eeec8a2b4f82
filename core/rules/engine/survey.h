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
