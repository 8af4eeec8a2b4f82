/* line_trace.h: which lines of a script a call of a dry run came by, for EXPLAIN.
 *
 * Of the script's own file alone, not of modules that it requires. The call is slower
 * meanwhile: so the trace ends itself after LINE_TRACE_STEPS_MAX lines, and a loop uses
 * up no more of its budget for being watched. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#define LINE_TRACE_LINES_MAX 1024
#define LINE_TRACE_STEPS_MAX 5000

struct line_trace {
	const char *file;
	/* The last one that ran, other than the `end` of a function: what the call
	 * decided, it decided here. 0: none, or the trace has ended itself. */
	int line;
	unsigned steps;
	uint64_t lines[LINE_TRACE_LINES_MAX / 64]; /* a bit for each that ran */
};

/* Around a call into the state whose decision_context has the trace. It is of this call
 * alone then. */
void line_trace_begin(struct line_trace *t, lua_State *L, const char *file);
void line_trace_end(lua_State *L);

/* The first run of lines that ran, from *line on: *line and *last receive its ends. Lines
 * beyond LINE_TRACE_LINES_MAX are not known. */
bool line_trace_next(const struct line_trace *t, int *line, int *last);
