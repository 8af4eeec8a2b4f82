/* child.h: run a program, and read what it says. Blocks: for a thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/slice.h"

#define CHILD_LINE_MAX 8192

struct child_spec {
	const char *program;
	const char *const *args; /* after its name; NULL ends them */
	int64_t silence_ms;      /* it is ended when it says nothing for so long */
	void (*on_line)(void *ctx, struct slice line); /* of its standard output */
	/* The pid; 0 when it has ended. Whoever wants to end it early kills the group. */
	void (*on_pid)(void *ctx, pid_t pid);
	void *ctx;
};

struct child_end {
	int status; /* as of waitpid */
	bool is_late;
};

/* It is the leader of a process group, which ends with it. TIDE_ERULE when it cannot be
 * started. */
TIDE_MUST_USE int child_run(const struct child_spec *spec, struct child_end *end,
			    struct error *err);
