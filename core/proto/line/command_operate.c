/* KILL and DRAIN: what operators ask of a broker at work. */
#include "verb.h"

#include "line.h"

COMMAND(operate_kill)
{
	uint64_t number;

	if (!slice_is(q->words[0], "connection"))
		request_refuse(q, NULL, q->words[0], "connection");
	else if (!slice_to_uint(q->words[1], UINT64_MAX, &number))
		request_refuse(q, NULL, q->words[1],
			       "the number of a connection, see LIST connections");
	if (q->rc < 0)
		return q->rc;
	return session_operate_kill(l->base.session, number, r, q->err);
}

COMMAND(operate_drain)
{
	bool is_on = q->word_count == 0;

	if (!is_on && slice_is(q->words[0], "quiet"))
		r->is_quiet = is_on = true;
	else if (!is_on && !slice_is(q->words[0], "off"))
		request_refuse(q, NULL, q->words[0], "off, or nothing");
	if (q->rc < 0)
		return q->rc;
	return session_operate_drain(l->base.session, is_on, r, q->err);
}
