#include "traceback.h"

#include <stdio.h>
#include <string.h>

#include "script.h"

/* lua_getstack counts from the top each time. */
#define LEVELS_MAX 32

/* What the function of the level is called, or is. */
static void describe(const struct script_state *s, const lua_Debug *f, char *out,
		     size_t max)
{
	if (*f->namewhat && !script_hides(s, slice_from(f->name)))
		snprintf(out, max, "%s '%.60s'",
			 strcmp(f->namewhat, "metamethod") == 0 ? "metamethod"
								: "function",
			 f->name);
	else if (*f->what == 'm')
		snprintf(out, max, "the file");
	else
		snprintf(out, max, "the function of line %d", f->linedefined);
}

void traceback_write(lua_State *L, const struct script_state *s, char *out, size_t max)
{
	char line[SCRIPT_PLACE_MAX + 96], what[80];
	size_t used = 0;
	lua_Debug f;

	out[0] = '\0';
	/* Level 0 is the handler. */
	for (int level = 1; level < LEVELS_MAX && lua_getstack(L, level, &f); level++) {
		lua_getinfo(L, "Slnt", &f);
		if (f.currentline <= 0 && !*f.namewhat)
			continue; /* the door */
		describe(s, &f, what, sizeof(what));
		int len = f.currentline > 0
				  ? snprintf(line, sizeof(line), "%s:%d: in %s%s",
					     f.short_src, f.currentline, what,
					     f.istailcall ? ", called at an end" : "")
				  : snprintf(line, sizeof(line), "in %s of C", what);
		if (used + (size_t)len + 2 > max)
			return;
		used += (size_t)snprintf(out + used, max - used, "%s%s", used ? "\n" : "",
					 line);
	}
}
