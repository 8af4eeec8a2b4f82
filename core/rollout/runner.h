/* runner.h: work on a thread of its own, which runs a child process and waits for it.
 *
 * The thread is its alone, so that a child that takes a minute keeps no login
 * waiting for a thread of the pool. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "base/slice.h"

#define RUNNER_LINE_MAX 8192 /* a longer line of a child comes in parts */

struct runner {
	void (*work)(struct runner *r);    /* on the thread */
	void (*on_done)(struct runner *r); /* on the loop; may free it */
	uv_thread_t thread;
	uv_async_t async;
	uv_mutex_t lock; /* of the rest */
	pid_t pid;       /* of the child; 0: none */
	bool is_ended;   /* no child is wanted any more */
};

/* Before any other function, and at the end if it is not started. */
void runner_init(struct runner *r, void (*work)(struct runner *r),
		 void (*on_done)(struct runner *r));
void runner_deinit(struct runner *r);
/* on_done comes in any case, and runner_deinit was called before. */
void runner_start(struct runner *r, uv_loop_t *loop);
/* End the child, and what is begun after it. */
void runner_end(struct runner *r);

struct runner_child {
	const char *program;
	const char *const *args; /* after its name; NULL ends them */
	int64_t silence_ms; /* it is ended when it says nothing for so long; 0: never */
	int64_t limit_ms;   /* it is ended after so long; 0: never */
	void (*on_line)(void *ctx, struct slice line); /* of its standard output */
	void *ctx;
	/* Out. */
	int status; /* as of waitpid */
	bool is_late;
};

/* For `work`: run a program, the leader of a process group which ends with it, and read
 * what it says. Blocks. TIDE_ERULE when it cannot be started. */
TIDE_MUST_USE int runner_run(struct runner *r, struct runner_child *c, struct error *err);
