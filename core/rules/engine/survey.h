/* survey.h: every script of a rules directory, loaded only to be looked at.
 *
 * A broker refuses a directory at the first script that does not load. A survey
 * reports that script and goes on with the next. It has an engine and an event loop of
 * its own, and runs no decision. */
#pragma once

#include "engine.h"
#include "rules_dir.h"

struct bundle;
struct survey;

/* A script that loads. Texts belong to the survey. */
struct survey_script {
	enum script_kind kind;
	const char *name; /* "10-tag" */
	const char *file; /* "filter/10-tag.lua" */
	int line;         /* of the function that decides */
	uint64_t hash;    /* of the text */
	bool is_active;   /* a filter with a match, a schedule that is due at times */
	/* Of an active filter; else NULL. */
	const char *match_exchange; /* "" is the default exchange, "*" any */
	const char *match_key;
};

/* Loads all scripts. Calls `on_error` for each that does not load, with a text that
 * begins with file and line. Always gives a survey, if need be one without scripts. */
struct survey *survey_open(const char *rules_dir, const char *lua_dir,
			   void (*on_error)(void *ctx, const char *text), void *ctx);
void survey_close(struct survey *s);

/* Every script loaded. */
bool survey_is_complete(const struct survey *s);
/* The scripts that load, by kind, then by name. */
const struct survey_script *survey_scripts(const struct survey *s, size_t *count);
/* The scripts and the modules that they require, as they were read, with those that do
 * not load. NULL when the directory cannot be read. */
const struct bundle *survey_files(const struct survey *s);
/* rules_dir_each_unread for the directory. */
void survey_each_unread(const struct survey *s, rules_dir_unread_fn *on_file, void *ctx);
