/* carry.h: what a strategy keeps in its `state` goes over into the next generation.
 *
 * A script with a function carry(old, opts) is given, once after a reload and
 * before it decides anything, a copy of the state that the same use had in the
 * generation before. What it returns is its state from then on. The old
 * generation stays until every use has been asked: between the turns of the
 * loop, or at its first call if that comes earlier. So nothing that was
 * remembered before the switch is missing after it. */
#ifndef TIDE_RULES_ENGINE_CARRY_H
#define TIDE_RULES_ENGINE_CARRY_H

#include <stdbool.h>
#include <stdint.h>

/* Keys and values of one use; copying a million takes about a tenth of a second. */
#define CARRY_VALUES_MAX 1000000
#define CARRY_DEPTH_MAX 64

struct engine;
struct generation;
struct handle;

/* The handle's use in `g` replaces one in force, whose state it may want. */
void carry_note(const struct handle *h, struct generation *g);

/* `old` has just been replaced (NULL: there was none). When nobody wants anything of it,
 * it is given back; else it is kept, as e->former, until carry_turn or carry_finish has
 * come to an end. */
struct generation *carry_begin(struct engine *e, struct generation *old);
/* Ask some of the uses, for about `max_ns`. At the end returns the old generation, which
 * the caller frees; before NULL. */
struct generation *carry_turn(struct engine *e, int64_t max_ns);
/* Ask all that are left, and free the old generation. */
void carry_finish(struct engine *e);

/* The handle is about to be called, while there is a former generation. */
void carry_use(const struct handle *h);
/* A handle goes away; before it is taken out of the list. */
void carry_forget(const struct handle *h);

#endif
