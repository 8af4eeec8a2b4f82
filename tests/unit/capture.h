/* capture.h: what a test writes to standard error, as a log does. */
#pragma once

#include "check.h"

#include <stdio.h>
#include <unistd.h>

/* Standard error goes to a file for the time of a test. */
struct capture {
	int saved;
	FILE *file;
	char text[8192];
};

static inline void capture_begin(struct capture *c)
{
	c->file = tmpfile();
	assert_non_null(c->file);
	fflush(stderr);
	c->saved = dup(STDERR_FILENO);
	assert_true(dup2(fileno(c->file), STDERR_FILENO) >= 0);
}

static inline void capture_end(struct capture *c)
{
	assert_true(dup2(c->saved, STDERR_FILENO) >= 0);
	close(c->saved);
	rewind(c->file);
	size_t len = fread(c->text, 1, sizeof(c->text) - 1, c->file);
	c->text[len] = '\0';
	fclose(c->file);
}
