/* scheduler.h: the schedules of the rules directory, run when they are due.
 *
 * Redis keeps what a schedule has done ({tide}:rules:schedule). Each tick runs once,
 * whatever happens to the broker:
 *
 *   1. the script runs; what it publishes is gathered, passes the filters, and gets
 *      ids, the copies that filters make too;
 *   2. "tick T has begun, with these ids" is written;
 *   3. the messages are published;
 *   4. when all of them are durable "tick T is done" is written.
 *
 * A broker that finds a tick begun and not done runs it again with the same ids,
 * and publishes only what is not there. A run that fails publishes nothing; it is
 * done with, and the next tick is another one. The broker's turn drives it. */
#pragma once

#include "base/json.h"
#include "rules/engine/schedule.h"
#include "broker/broker.h"
#include "base/waiter.h"

#define SCHEDULE_MESSAGES_MAX 1000 /* of one run */
#define SCHEDULE_MISSED_MAX 1000   /* ticks that are made up for, and counted */

/* Of a message that a run has published, or of a copy of it. */
struct schedule_id {
	uint64_t id;
	unsigned message; /* of the run, from 0 on; it comes first, then its copies */
};

struct schedule_find {
	uint64_t id;
	const void *queue;
};

struct schedule {
	TAILQ_ENTRY(schedule) link;
	struct scheduler *scheduler;
	struct broker *broker;
	char *name;
	struct schedule_spec spec; /* with its own texts */
	bool is_listed;            /* an active schedule of the active rules */
	bool is_elsewhere;         /* the owner of another cell runs it */
	bool is_busy;
	bool is_starting;  /* not yet looked at since the broker's start */
	bool has_new_when; /* changed while it was busy */

	int64_t done_ms;  /* the last tick that is done, or since when it exists */
	int64_t begun_ms; /* a tick that is begun and not done; 0 = none */
	uint64_t begun_missed;
	struct schedule_id *ids;
	unsigned id_count, id_cap;
	int64_t due_ms; /* when to look at it again */

	/* The run under way. */
	struct schedule_tick tick;
	struct vhost *home;
	struct msg **msgs;
	unsigned msg_count;
	bool is_repeat;
	struct waiter waiter;
	struct error failure; /* of publishing; code 0 = none */
	struct schedule_find *finds;
	unsigned find_count;

	uint64_t runs, failures, skipped, messages;
	int64_t last_tick_ms;
	int64_t last_run_ms;
	char last_result[ERROR_TEXT_MAX]; /* "ok" or why not */
};

TAILQ_HEAD(schedule_list, schedule);

struct scheduler {
	struct broker *broker;
	struct schedule_list schedules;
	unsigned busy;
	bool is_started;
	bool has_failed; /* a mark could not be written */
	bool is_held;
	int64_t due_ms;        /* the first of them all; 0 = none */
	int64_t seen_ms;       /* the clock in the last turn */
	int64_t rest_until_ms; /* after a run that took long; 0 = no rest */
	store_done_fn on_loaded;
	void *ctx;
};

struct scheduler *scheduler_create(struct broker *b);
void scheduler_destroy(struct scheduler *s);
/* Read from Redis what has been done before this process, then call on_loaded. */
void scheduler_load(struct scheduler *s, store_done_fn on_loaded, void *ctx);
/* Begin. Missed ticks are dealt with from here on. */
void scheduler_start(struct scheduler *s);
/* The rules have changed. */
void scheduler_update(struct scheduler *s);
/* Run what is due. */
void scheduler_turn(struct scheduler *s);
/* Publishers are held back, or no longer: begin no run meanwhile. Ticks that pass are
 * missed ticks. */
void scheduler_hold(struct scheduler *s, bool is_held);
/* When the scheduler needs a turn; 0 = it needs none. */
int64_t scheduler_due_ms(const struct scheduler *s);
/* No run is under way. */
bool scheduler_is_idle(const struct scheduler *s);
/* The member "schedules" of RULES status. */
void scheduler_status(const struct scheduler *s, struct json *out);
