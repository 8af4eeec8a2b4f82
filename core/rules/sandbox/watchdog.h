/* watchdog.h: the time ceiling of a call into a script.
 *
 * A thread looks a few times per budget whether the loop's thread is still in the same
 * call. A call that has used up its budget gets a count hook. The hook raises an error at
 * the next instruction and at each one after it: no pcall in the script swallows it. A
 * call within its budget costs two atomic stores. While nothing calls, the thread sleeps.
 *
 * The budget is processor time of the loop's thread. A script cannot block, so this is
 * wall time for it, and a busy machine is not the script's fault.
 *
 * lua_sethook walks the call chain of the state and must not run beside the interpreter.
 * The thread therefore sends a signal, and the signal's handler sets the hook on the
 * loop's thread. The handler finds the watchdog in the signal's value. A watchdog watches
 * the thread that creates it. */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct watchdog;

/* `hook` raises the error. libuv's error when the thread cannot be started. */
TIDE_MUST_USE int watchdog_create(struct watchdog **out, int64_t budget_ms,
				  lua_Hook hook);
/* Accepts NULL. Not inside a call. */
void watchdog_destroy(struct watchdog *w);

/* The calling thread enters `L`. Calls do not nest. */
void watchdog_enter(struct watchdog *w, lua_State *L);
/* The call has ended. Did it overrun its budget? */
bool watchdog_leave(struct watchdog *w);

int64_t watchdog_budget_ms(const struct watchdog *w);
/* Has the call under way overrun? */
bool watchdog_has_fired(const struct watchdog *w);
