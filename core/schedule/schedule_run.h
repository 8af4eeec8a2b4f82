/* schedule_run.h: one tick of a schedule: run the script, gather, publish. */
#ifndef TIDE_SCHEDULE_SCHEDULE_RUN_H
#define TIDE_SCHEDULE_SCHEDULE_RUN_H

#include "scheduler.h"

/* The schedule's vhost; TIDE_ENOTFOUND when there is none yet. */
TIDE_MUST_USE int schedule_run_home(const struct schedule *s, struct vhost **out,
				    struct error *err);
/* Run a tick. The schedule is busy until scheduler_finish or scheduler_postpone, which
 * may come within the call. */
void schedule_run_tick(struct schedule *s, int64_t tick_ms, uint64_t missed);

#endif
