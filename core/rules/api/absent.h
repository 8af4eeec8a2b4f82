/* absent.h: deciding on a message whose payload is not there any more, only its size.
 *
 * Between begin and end a message without a payload is one that had so many bytes:
 * that is what `msg.size` says. A script that reads `msg.payload` is stopped, and what
 * it would have decided is not known: also if it goes on, by pcall. */
#ifndef TIDE_RULES_API_ABSENT_H
#define TIDE_RULES_API_ABSENT_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

struct engine;

/* No reload in between. */
void engine_absent_begin(struct engine *e, size_t bytes);
/* Has a script asked for the payload? */
bool engine_absent_end(struct engine *e);

/* ---- for the engine's own files -------------------------------------------- */

/* The size of a payload that is not there; 0 when there is just none. */
size_t absent_bytes(lua_State *L);
/* Raises, when the payload is not there. */
void absent_check(lua_State *L);

#endif
