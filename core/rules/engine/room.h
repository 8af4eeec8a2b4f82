/* room.h: what happens when scripts come near their memory ceiling.
 *
 * When an allocation is refused, Lua collects the whole state at once, which nothing can
 * interrupt: 200 ms for a full state of 64 MiB. Three things avoid it. The collector
 * starts early enough (script.c). A new binding or queue is refused while there is still
 * room for calls. Possible garbage is then collected in steps, between the turns of the
 * event loop. */
#ifndef TIDE_RULES_ENGINE_ROOM_H
#define TIDE_RULES_ENGINE_ROOM_H

#include "engine.h"

struct rule;

/* The part of the ceiling for calls alone: nothing is bound or declared in it. */
#define ROOM_RESERVE(max) ((max) / 16)
/* How long scripts are not called when their memory is used up: each call would collect
 * all of it. */
#define ROOM_REST_MS 1000
#define ROOM_TURN_NS 1000000

/* Part of the engine. */
struct room {
	uint64_t ending_epoch;  /* the last one that used up its memory */
	size_t fresh_bytes;     /* of the active generation when it was loaded */
	int64_t rests_until_ms; /* no script is called: the memory is used up */
	uv_idle_t collector;    /* active while the state is collected in steps */
	uint64_t collecting;    /* the epoch that is collected */
	int cycles_left;
};

/* TIDE_ELIMIT: there is no room for anything new. */
TIDE_MUST_USE int room_check(struct engine *e, struct error *err);
/* A call that creates something has ended with `rc`. A shortage of memory becomes
 * TIDE_ELIMIT, and nothing new is created before there is more room. */
TIDE_MUST_USE int room_after_new(struct engine *e, int rc, struct error *err);

/* The state is exhausted: may the script be called now? */
bool room_allows_call(struct engine *e, const struct rule *rule, struct error *err);
/* A call has ended, to which memory was refused, or to one before it. */
void room_after_call(struct engine *e, int rc);

void room_open(struct engine *e);

#endif
