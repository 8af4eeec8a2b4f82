/* TRACE. */
#include "base/topic_pattern.h"
#include "session_private.h"
#include "tracer.h"

static int check_exchange(const struct session *s, struct slice name, struct error *err)
{
	if (name.len == 0 || tracer_is_all(name) || exchange_find(s->vhost, name))
		return TIDE_OK;
	if (queue_find(s->vhost, name))
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no exchange '%" SLICE_FMT
				 "' in vhost '%s'; what is published to the queue by its "
				 "name has the exchange - and the key '%" SLICE_FMT "'",
				 SLICE_ARG(name), s->vhost->name, SLICE_ARG(name));
	return session_missing(s, SUBJECT_EXCHANGE, name, err);
}

/* A key without wildcards may have empty words. */
static int check_key(struct slice key, struct error *err)
{
	const char *fault =
		slice_find(key, '*') < key.len || slice_find(key, '#') < key.len
			? topic_pattern_fault(key)
			: NULL;

	if (!fault)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX, "the key '%" SLICE_FMT "' %s", SLICE_ARG(key),
			 fault);
}

int session_trace_start(struct channel *ch, const struct trace_spec *spec,
			struct reply *r, struct error *err)
{
	struct session *s = ch->session;

	if (tracer_check(s, spec, err) < 0 ||
	    check_exchange(s, spec->exchange, err) < 0 || check_key(spec->key, err) < 0)
		return err->code;
	if (ch->trace)
		return error_set(err, TIDE_EEXISTS,
				 "this channel has a trace already; it ends with its "
				 "time, or with the channel");
	if (tracer_start(ch, spec, err) < 0)
		return err->code;
	reply_ok(r);
	return TIDE_OK;
}
