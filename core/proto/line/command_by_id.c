/* FIND, REMOVE and RESCHEDULE: messages by their ids. */
#include "base/duration.h"
#include "base/mem.h"
#include "line.h"
#include "verb.h"

COMMAND(by_id_find)
{
	struct slice queue = request_name(q, 0, "a queue");
	uint64_t id = request_id(q, NULL, q->words[1]);

	if (q->rc < 0)
		return q->rc;
	return session_by_id_find(l->base.session, queue, id, r, q->err);
}

typedef int run_fn(struct session *s, const struct by_id_spec *spec, struct reply *r,
		   struct error *err);

static int run_with_ids(struct line *l, struct request *q, struct by_id_spec *spec,
			run_fn *run, struct reply *r)
{
	struct slice rest = q->tags;
	uint64_t *ids;

	spec->queue = request_name(q, 0, "a queue");
	spec->count = 1;
	for (size_t i = 0; i < rest.len; i++)
		spec->count += rest.data[i] == ' ';
	ids = mem_alloc(spec->count * sizeof(*ids));
	for (unsigned i = 0; i < spec->count; i++)
		ids[i] = request_id(q, NULL, slice_cut(&rest, ' '));
	spec->ids = ids;
	if (q->rc == TIDE_OK)
		q->rc = run(l->base.session, spec, r, q->err);
	mem_free(ids);
	return q->rc;
}

COMMAND(by_id_remove)
{
	struct by_id_spec spec = { 0 };

	return run_with_ids(l, q, &spec, session_by_id_remove, r);
}

COMMAND(by_id_reschedule)
{
	const struct number_limits delay = { 0, DURATION_MAX_MS };
	struct by_id_spec spec = { .delay_ms = request_duration(q, "delay", delay) };

	if (q->rc == TIDE_OK && !request_option(q, "delay").data)
		return error_set(q->err, TIDE_ESYNTAX,
				 "RESCHEDULE needs delay=, a duration; delay=0 makes "
				 "messages ready");
	return run_with_ids(l, q, &spec, session_by_id_reschedule, r);
}
