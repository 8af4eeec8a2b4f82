/* findings.h: what is wrong in a rules directory, printed like the output of a
 * compiler: "dir/file.lua:3: what is wrong", sorted by file and line.
 *
 * A note is printed and does not count as a problem. A finding that is added twice is
 * kept once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/slice.h"
#include "rules/engine/survey.h"

struct findings {
	const char *dir; /* the rules directory */
	struct finding *items;
	size_t count, cap;
	size_t problems; /* findings without the notes */
};

/* `dir` outlives it. */
void findings_init(struct findings *f, const char *dir);
void findings_deinit(struct findings *f);

enum finding_kind {
	FINDING_PROBLEM,
	FINDING_NOTE, /* the directory is fit to go live with it */
	/* A problem whose file is not in the rules directory: a file of definitions, or
	 * "broker". Printed after everything in the directory. */
	FINDING_OUTSIDE,
};

/* @param file  relative to the rules directory; "" for the directory itself
 * @param line  0 for the whole file */
void findings_add(struct findings *f, enum finding_kind kind, const char *file, int line,
		  const char *format, ...) TIDE_PRINTF(5, 6);
/* An error of the rule engine. It begins with its own place ("retry/fixed.lua:3: ") or
 * belongs to the directory. */
void findings_add_error(struct findings *f, const char *text);

/* A problem is known for this line. */
bool findings_has(const struct findings *f, const char *file, int line);

void findings_print(struct findings *f, FILE *out);
/* The same for programs: each finding is an object on a line of its own. */
void findings_print_json(struct findings *f, FILE *out);

/* The warnings of luacheck, if it is installed. Skips lines for which `f` has a problem
 * already. Blocks until luacheck ends. */
void findings_lint(const char *dir, struct findings *f);

/* Mistakes that scripts show without definitions: files that nothing loads, filters that
 * look like copies or run in an unexpected order, matches that match hardly anything,
 * functions that are defined twice. */
void findings_add_scripts(const struct survey *s, struct findings *f);

/* Findings that the text of a script shows, line by line. This is no parser of Lua:
 * comments and long strings are skipped, and unusual layout is overlooked rather than
 * reported wrongly. */
typedef void findings_text_fn(void *ctx, struct slice name, int line);

/* Names in `exchange = "name"`, but "-" and "*". */
void findings_each_exchange(struct slice text, findings_text_fn *on_name, void *ctx);
