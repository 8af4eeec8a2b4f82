/* pace.h: how long one peer, or one kind of work, may keep the loop at a time; and work
 * that goes on in the next turns.
 *
 * Whatever can be long (a feed of pipelined requests, an ACK of many tags, timeouts)
 * stops when pace_is_spent and goes on in the next turn. The clock is read when a
 * script has been called, and otherwise once in a while. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct broker;

/* Steps, each below a microsecond, from one look at the clock to the next. */
#define PACE_STEPS 64

struct pace {
	const uint64_t *calls; /* of scripts, counted by the engine */
	uint64_t calls_seen;
	uint64_t began_ns;
	unsigned steps;
};

void pace_init(struct pace *p);
void pace_begin(struct pace *p);
/* By the clock. */
bool pace_is_over(struct pace *p);
/* How long it has been: for work that nobody waits for as for a message. */
uint64_t pace_taken_us(const struct pace *p);

/* After a step of the work; `is_heavy`: it may have taken long by itself. */
static inline bool pace_is_spent(struct pace *p, bool is_heavy)
{
	if (!is_heavy && *p->calls == p->calls_seen && ++p->steps % PACE_STEPS != 0)
		return false;
	return pace_is_over(p);
}

/* Work that one turn of the event loop is too short for.
 *
 * A job runs in slices: one job a turn, in turns, for about one slice of the
 * turn. Who has more to do adds it again. */
struct job {
	TAILQ_ENTRY(job) link;
	bool is_waiting;
	/* Called when its time has come. A job may add itself again, or free itself. */
	void (*run)(struct job *job);
};

/* Run it in one of the next turns. Harmless when it waits already. */
void job_add(struct broker *b, struct job *job);
/* Run a slice of the first one. */
void job_turn(struct broker *b);
/* The broker is closing (is_closing): run all until none is left. */
void job_end_all(struct broker *b);
