/* process.h: which process of which machine this is, so that another one can tell
 * whether it still runs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct process {
	char host[65];
	char boot[40]; /* of the machine's kernel; "" when it does not tell */
	uint64_t pids; /* its namespace: containers have their own; 0: unknown */
	int64_t pid;
	uint64_t start_tick; /* of the boot: another process may get the pid later */
};

void process_self(struct process *out);
/* Did the process run on this machine, where its end can be seen, and has it ended?
 * False also when that cannot be known: it runs elsewhere, or in another container. */
bool process_has_ended(const struct process *p);
