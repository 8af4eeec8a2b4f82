/* PAUSE and RESUME. */
#include "base/duration.h"
#include "line.h"
#include "verb.h"

#define DIRECTIONS "in, out or both"

/* The second word; without one it is both. */
static void read_directions(struct request *q, struct pause_spec *spec)
{
	unsigned which = 2;

	if (q->rc == TIDE_OK && q->word_count > 1 &&
	    !slice_is_choice(q->words[1], DIRECTIONS, &which))
		request_refuse(q, NULL, q->words[1], DIRECTIONS);
	spec->in = which != 1;
	spec->out = which != 0;
}

COMMAND(pause)
{
	static const struct number_limits limits = { 1, DURATION_MAX_MS };
	struct pause_spec spec = { .queue = request_name(q, 0, "a queue") };

	read_directions(q, &spec);
	spec.for_ms = request_duration(q, "for", limits);
	return q->rc < 0 ? q->rc : session_pause(l->base.session, &spec, r, q->err);
}

COMMAND(pause_resume)
{
	struct pause_spec spec = { .queue = request_name(q, 0, "a queue"),
				   .is_resume = true };

	if (q->word_count > 1 && slice_is(q->words[1], "quiet")) {
		r->is_quiet = true;
		q->word_count = 1;
	}
	read_directions(q, &spec);
	return q->rc < 0 ? q->rc : session_pause(l->base.session, &spec, r, q->err);
}
