/* findings.h: what is wrong with files, told as a compiler tells it: a line
 * each, "dir/file.lua:3: what is wrong", in the order of files and lines.
 *
 * A note is shown and does not count. What is found twice is told once. */
#ifndef TIDE_BASE_FINDINGS_H
#define TIDE_BASE_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "error.h"

struct finding {
	char *file; /* as it is shown */
	int line;   /* 0: the file as a whole, or no file */
	bool is_note;
	bool is_outside; /* not in the directory: comes after what is */
	size_t number;   /* in the order in which they were found */
	char *text;
};

struct findings {
	const char *dir; /* where the files are that are told; NULL: outside of it */
	struct finding *items;
	size_t count, cap;
	size_t problems; /* those that are no notes */
};

/* `dir` outlives it. */
void findings_init(struct findings *f, const char *dir);
void findings_deinit(struct findings *f);

void findings_add(struct findings *f, const char *file, int line, const char *format, ...)
	TIDE_PRINTF(4, 5);
void findings_note(struct findings *f, const char *file, int line, const char *format,
		   ...) TIDE_PRINTF(4, 5);
/* An error of the rule engine, which mostly begins with its own place
 * ("retry/fixed.lua:3: "); `file` is for one that does not. */
void findings_add_error(struct findings *f, const char *file, const char *text);
void findings_note_error(struct findings *f, const char *file, const char *text);

/* Is there one for this line? */
bool findings_has(const struct findings *f, const char *file, int line);

void findings_print(struct findings *f, FILE *out);

#endif
