/* audit.h: tidemq check-store: walk all keys of a store, report what cannot be, mend it.
 *
 * docs/redis.md is what must be true. One request is under way at a time, and none reads
 * more than a page: memory is bounded, and a broker that runs beside it goes on. What a
 * page shows may be between two commands of a batch. So it is reported only when it is
 * still there a second later. */
#pragma once

#include <stdbool.h>

struct audit_options {
	const char *store_url;
	const char *data_dir;
	const char *resume; /* where an earlier run was; NULL: from the start */
	bool is_repair;
};

/* Print findings and a summary on standard output, progress on standard error.
 *
 * @return  0 nothing is wrong any more; 1 something is, or the store cannot be read, or
 *          the walk was interrupted; 2 wrong usage */
int audit_run(const struct audit_options *o);
