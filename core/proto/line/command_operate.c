/* KILL, DRAIN and TRACE: what operators ask of a broker at work. */
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

#define TRACE_FOR_MS 60000
#define TRACE_MESSAGES 100

COMMAND(operate_trace)
{
	const struct number_limits time = { 100, TRACE_FOR_MAX_MS },
				   messages = { 1, TRACE_MESSAGES_MAX };
	struct trace_spec spec = { .exchange = request_word(q, 0, "an exchange"),
				   .key = SLICE("#") };

	if (q->word_count > 1)
		spec.key = request_word(q, 1, "a key");
	spec.share = request_share(q, "sample", 1);
	spec.for_ms = request_duration(q, "for", time);
	if (spec.for_ms == 0)
		spec.for_ms = TRACE_FOR_MS;
	spec.max = (unsigned)request_uint(q, "max", messages, TRACE_MESSAGES);
	spec.has_payload = request_has_flag(q, "payload");
	if (q->rc < 0)
		return q->rc;
	return session_trace_start(session_channel(l->base.session, q->channel), &spec, r,
				   q->err);
}
