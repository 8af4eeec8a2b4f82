/* password_work.h: passwords are hashed and verified on libuv's threads.
 *
 * PASSWORD_WORK_MAX at a time, so that other work finds a thread, in the order in which
 * they were asked for. on_done runs on the loop, never within the call that asked. */
#pragma once

#include <sys/queue.h>
#include <uv.h>

#include "password.h"

#define PASSWORD_WORK_MAX 2

struct password_job;

struct password_work {
	uv_loop_t *loop;
	STAILQ_HEAD(, password_job) waiting;
	unsigned running;
	uint64_t count;               /* of those that were begun */
	void (*on_closed)(void *ctx); /* not NULL: it is closing */
	void *ctx;
};

struct password_result {
	int status;       /* < 0: it could not be hashed */
	const char *why;  /* then */
	bool is_right;    /* of one that was verified */
	const char *text; /* of one that was hashed, as it is to be kept */
};
typedef void (*password_work_fn)(void *ctx, const struct password_result *result);

void password_work_init(struct password_work *w, uv_loop_t *loop);
struct password_job *password_work_hash(struct password_work *w, struct slice password,
					password_work_fn on_done, void *ctx);
/* @param text  as it is kept */
struct password_job *password_work_verify(struct password_work *w, struct slice password,
					  const char *text, password_work_fn on_done,
					  void *ctx);
/* on_done will not come. */
void password_work_cancel(struct password_job *job);
/* No on_done comes any more. What runs is waited for: on_closed comes then, perhaps
 * within the call. */
void password_work_close(struct password_work *w, void (*on_closed)(void *ctx),
			 void *ctx);
