/* watchdog.h: the time ceiling of a call into a script.
 *
 * A thread looks, a few times per budget, whether the loop's thread is still in
 * the call in which it was last seen; a call that has used up its budget gets a
 * count hook, which raises an error at the next instruction and at each one
 * after it, so that no pcall in the script can swallow it. A call that behaves
 * costs two atomic stores. While nothing calls, the thread sleeps and nothing
 * wakes it.
 *
 * The budget is processor time of the loop's thread: a script cannot block, so
 * for it that is wall time, and a busy machine is not the script's fault.
 *
 * lua_sethook walks the state's call chain and must not do so beside a running
 * interpreter; so the thread only sends a signal, and the hook is set by the
 * signal's handler, on the loop's thread. The handler finds the watchdog in the
 * signal's value. The thread that creates the watchdog is the one it watches. */
#ifndef TIDE_RULES_SANDBOX_WATCHDOG_H
#define TIDE_RULES_SANDBOX_WATCHDOG_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct watchdog;

/* libuv's error when the thread cannot be started. */
TIDE_MUST_USE int watchdog_create(struct watchdog **out, int64_t budget_ms);
/* Accepts NULL. Not inside a call. */
void watchdog_destroy(struct watchdog *w);

/* Once for each state that will be entered; may raise for lack of memory. */
void watchdog_adopt(struct watchdog *w, lua_State *L);

/* The calling thread goes into `L`. Calls do not nest. */
void watchdog_enter(struct watchdog *w, lua_State *L);
/* It is back. True when the call overran its budget. */
bool watchdog_leave(struct watchdog *w);

int64_t watchdog_budget_ms(const struct watchdog *w);
/* Where the call that overran last was when it was told so: file and line, or ""
 * when it was never told. Good until the next one overruns. */
const char *watchdog_place(const struct watchdog *w);

/* The call under way has overrun. */
bool watchdog_has_fired(const struct watchdog *w);
/* Raise the error of an overrun if the call under way has one: for C functions
 * that work long or catch errors. */
void watchdog_check(struct watchdog *w, lua_State *L);

#endif
