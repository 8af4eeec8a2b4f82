/* room.h: what happens when what scripts keep comes near their memory ceiling.
 *
 * Lua collects all of a state at once when an allocation is refused, which nothing can
 * interrupt: 200 ms for a full state of 64 MiB. So that it does not come to that, the
 * collector is paced to begin early enough (script.c), what would keep more (a
 * binding, a queue) is refused while there is still room for calls, and what may be
 * garbage then is collected in steps between the turns of the loop. */
#ifndef TIDE_RULES_ENGINE_ROOM_H
#define TIDE_RULES_ENGINE_ROOM_H

#include "engine.h"

struct rule;

/* Of the ceiling, what is left to calls: nothing is bound or declared in it. */
#define ROOM_RESERVE(max) ((max) / 16)
/* Scripts whose memory is used up are not asked for so long: each call would collect
 * all of it. */
#define ROOM_REST_MS 1000
#define ROOM_TURN_NS 1000000

/* Part of the engine. */
struct room {
	uint64_t ending_epoch;   /* the last one that used up its memory */
	size_t fresh_bytes;      /* of the active generation when it was loaded */
	uint64_t rests_until_ms; /* no script is called: the memory is used up */
	uv_idle_t collector;     /* active while the state is collected in steps */
	uint64_t collecting;     /* the epoch that is collected */
	int cycles_left;
};

/* TIDE_ELIMIT when there is no room for anything new. */
TIDE_MUST_USE int room_check(struct engine *e, struct error *err);
/* A call that makes something new has ended so: for a shortage of memory this becomes
 * TIDE_ELIMIT, and nothing new is made before there is more room. */
TIDE_MUST_USE int room_after_new(struct engine *e, int status, struct error *err);

/* In a state that is exhausted: false when the script is not to be asked now. */
bool room_allows_call(struct engine *e, const struct rule *rule, struct error *err);
/* A call has ended, which was refused memory or came after one that was. */
void room_after_call(struct engine *e, int status);

void room_open(struct engine *e);

#endif
