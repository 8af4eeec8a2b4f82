/* evaluate.h: a line of Lua that a person types, run as a script would be.
 *
 * It runs in the active generation, with what scripts have, and with their budgets. */
#pragma once

#include "rules/engine/engine.h"

struct evaluate_spec {
	struct slice text;     /* an expression, whose values are wanted, or statements */
	const struct msg *msg; /* what `msg` is in it, a view for this line; NULL: nil */
	struct slice vhost;    /* of the call */
	/* Run the line without effect: tide.shared, counters and buckets stay as they
	 * are, there is no `require`, and its globals go. Otherwise they stay for
	 * further lines, as long as the generation does. */
	bool is_dry;
};

/* Write the values of the line, as Lua would, with ", " between them. TIDE_ERULE: it
 * fails; `*is_open` (may be NULL) tells that it may go on in a further line. */
TIDE_MUST_USE int evaluate_line(struct engine *e, const struct evaluate_spec *spec,
				struct buf *out, bool *is_open, struct error *err);
