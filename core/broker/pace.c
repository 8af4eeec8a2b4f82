#include "pace.h"

#include <uv.h>

#include "broker.h"

/* About three times what a reload takes of a turn. */
#define SLICE_NS UINT64_C(5000000)

void pace_init(struct pace *p)
{
	static const uint64_t none; /* until there is an engine */

	*p = (struct pace){ .calls = &none };
}

void pace_begin(struct pace *p)
{
	p->began_ns = uv_hrtime();
	p->steps = 0;
}

bool pace_is_over(struct pace *p)
{
	p->calls_seen = *p->calls;
	return uv_hrtime() - p->began_ns > SLICE_NS;
}

uint64_t pace_taken_us(const struct pace *p)
{
	return (uv_hrtime() - p->began_ns) / 1000;
}

void job_add(struct broker *b, struct job *job)
{
	if (job->is_waiting)
		return;
	job->is_waiting = true;
	TAILQ_INSERT_TAIL(&b->jobs, job, link);
}

static void run_first_job(struct broker *b)
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
	run_first_job(b);
}

void job_end_all(struct broker *b)
{
	while (!TAILQ_EMPTY(&b->jobs))
		run_first_job(b);
}
