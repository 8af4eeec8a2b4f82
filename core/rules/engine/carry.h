/* carry.h: the `state` of a strategy moves into the next generation.
 *
 * A script may have a function carry(old, opts). After a reload, before the script
 * decides anything, it gets a copy of the state that the same use had in the former
 * generation. Its result is the new state. The former generation stays until every use
 * has been asked: between the turns of the event loop, or at the first call of the use.
 * Nothing that a script remembered is lost by the switch. */
#ifndef TIDE_RULES_ENGINE_CARRY_H
#define TIDE_RULES_ENGINE_CARRY_H

#include <stdbool.h>
#include <stdint.h>

/* Keys and values of one use; copying a million takes about 0.1 s. */
#define CARRY_VALUES_MAX 1000000
/* Tables inside tables; bounds the recursion of the copy. */
#define CARRY_DEPTH_MAX 64

struct engine;
struct generation;
struct handle;

/* The use of the handle in `g` replaces the active one, and may want its state. */
void carry_note(const struct handle *h, struct generation *g);

/* `old` (may be NULL) has just been replaced. Returns it when no use wants its state.
 * Else keeps it, as e->former, until carry_turn or carry_finish has ended. */
struct generation *carry_begin(struct engine *e, struct generation *old);
/* Ask some of the uses, for about `max_ns`. At the end returns the old generation, which
 * the caller frees; before NULL. */
struct generation *carry_turn(struct engine *e, int64_t max_ns);
/* Ask all uses that are left, and free the old generation. */
void carry_finish(struct engine *e);

/* The handle is about to be called, and there is a former generation. */
void carry_use(const struct handle *h);
/* A handle goes; call this before it leaves the list. */
void carry_forget(const struct handle *h);

#endif
