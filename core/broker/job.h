/* job.h: work that one turn of the event loop is too short for.
 *
 * A job runs in slices: one job a turn, in turns, for about one slice of the turn
 * (pace.h). Who has more to do adds it again. */
#pragma once

#include "broker.h"

struct job {
	TAILQ_ENTRY(job) link;
	bool is_waiting;
	/* Called when its time has come. A job may add itself again, or free itself. */
	void (*run)(struct job *job);
};

/* Run it in one of the next turns. Harmless when it waits already. */
void job_add(struct broker *b, struct job *job);
void job_turn(struct broker *b);
/* The broker is closing (is_closing): run all until none is left. */
void job_end_all(struct broker *b);
