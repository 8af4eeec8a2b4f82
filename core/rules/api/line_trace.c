#include "line_trace.h"

#include <string.h>

#include "decision_context.h"

static bool has_line(const struct line_trace *t, int line)
{
	return (t->lines[line / 64] >> line % 64 & 1) != 0;
}

/* The watchdog's hook takes the place of this one when the call overruns. */
static void on_line(lua_State *L, lua_Debug *where)
{
	struct line_trace *t = decision_context_of(L)->trace;

	if (++t->steps > LINE_TRACE_STEPS_MAX) {
		t->line = 0;
		/* If the watchdog has set its hook just now, it will do so again. */
		lua_sethook(L, NULL, 0, 0);
		return;
	}
	lua_getinfo(L, "Sl", where);
	int line = where->currentline;
	/* The name of a chunk begins with '='. */
	if (line <= 0 || strcmp(where->source + 1, t->file) != 0)
		return;
	if (line < LINE_TRACE_LINES_MAX)
		t->lines[line / 64] |= UINT64_C(1) << line % 64;
	if (line != where->lastlinedefined || line == where->linedefined)
		t->line = line;
}

void line_trace_begin(struct line_trace *t, lua_State *L, const char *file)
{
	*t = (struct line_trace){ .file = file };
	lua_sethook(L, on_line, LUA_MASKLINE, 0);
}

void line_trace_end(lua_State *L)
{
	lua_sethook(L, NULL, 0, 0);
}

bool line_trace_next(const struct line_trace *t, int *line, int *last)
{
	while (*line < LINE_TRACE_LINES_MAX && !has_line(t, *line))
		++*line;
	*last = *line;
	while (*last + 1 < LINE_TRACE_LINES_MAX && has_line(t, *last + 1))
		++*last;
	return *line < LINE_TRACE_LINES_MAX;
}
