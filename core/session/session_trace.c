#include "session_trace.h"

#include "session_private.h"
#include "tracer.h"

/* A pattern that is a key: of the default exchange, a queue. */
static bool is_name(struct slice pattern)
{
	return !memchr(pattern.data, '*', pattern.len) &&
	       !memchr(pattern.data, '#', pattern.len);
}

static int check_read(struct session *s, const struct trace_spec *spec, struct error *err)
{
	if (subject_may_all(&s->subject, USER_READ) || subject_is_free(&s->subject))
		return TIDE_OK;
	if (session_trace_is_all(spec->exchange))
		return error_set(err, TIDE_EDENIED,
				 "TRACE * needs the permission to read all");
	if (spec->exchange.len)
		return session_access_check(s, USER_READ, SUBJECT_EXCHANGE,
					    spec->exchange, err);
	if (is_name(spec->key))
		return session_access_check_queue(s, USER_READ, spec->key, err);
	return error_set(err, TIDE_EDENIED,
			 "TRACE of the default exchange needs the permission to read "
			 "all, or a key that is the name of a queue");
}

int session_trace_check(struct session *s, const struct trace_spec *spec,
			struct error *err)
{
	int rc = session_access_check_tag(s, USER_MONITOR, "TRACE", err);

	return rc == TIDE_OK ? check_read(s, spec, err) : rc;
}

static int check_exchange(const struct session *s, struct slice name, struct error *err)
{
	if (name.len == 0 || session_trace_is_all(name) || exchange_find(s->vhost, name))
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND, "there is no exchange '%" SLICE_FMT "'",
			 SLICE_ARG(name));
}

int session_trace_start(struct channel *ch, const struct trace_spec *spec,
			struct reply *r, struct error *err)
{
	struct session *s = ch->session;

	if (session_trace_check(s, spec, err) < 0 ||
	    check_exchange(s, spec->exchange, err) < 0)
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
