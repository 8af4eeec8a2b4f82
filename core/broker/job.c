#include "job.h"

void job_add(struct broker *b, struct job *job)
{
	if (job->is_waiting)
		return;
	job->is_waiting = true;
	TAILQ_INSERT_TAIL(&b->jobs, job, link);
}

static void run_first(struct broker *b)
{
	struct job *job = TAILQ_FIRST(&b->jobs);

	TAILQ_REMOVE(&b->jobs, job, link);
	job->is_waiting = false;
	job->run(job);
}

void job_turn(struct broker *b)
{
	if (TAILQ_EMPTY(&b->jobs))
		return;
	pace_begin(&b->pace);
	run_first(b);
}

void job_end_all(struct broker *b)
{
	while (!TAILQ_EMPTY(&b->jobs))
		run_first(b);
}
