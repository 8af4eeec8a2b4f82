/* TRACE. */
#include "base/topic_pattern.h"
#include "session_private.h"

/* A pattern that is a key: of the default exchange, a queue. */
static bool is_name(struct slice pattern)
{
	return slice_find(pattern, '*') == pattern.len &&
	       slice_find(pattern, '#') == pattern.len;
}

/* The session's user may see what the trace shows. */
static int check_access(struct session *s, const struct trace_spec *spec,
			struct error *err)
{
	if (subject_may_all(&s->subject, USER_READ) || subject_is_free(&s->subject))
		return TIDE_OK;
	if (tracer_is_all(spec->exchange))
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

#define FOR_DEFAULT_MS 60000

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

static int check_key(struct slice key, struct error *err)
{
	const char *fault = topic_pattern_fault(key);

	if (!fault)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX, "the key '%" SLICE_FMT "' %s", SLICE_ARG(key),
			 fault);
}

static void on_event(void *ctx, const char *text)
{
	const struct channel *ch = ctx;
	const struct session *s = ch->session;

	if (!s->is_closed)
		s->ops->on_event(s->ctx, ch->number, "trace", text);
}

static bool can_take(void *ctx)
{
	const struct session *s = ((const struct channel *)ctx)->session;

	return s->ops->can_take(s->ctx);
}

static void on_end(void *ctx)
{
	((struct channel *)ctx)->trace = NULL;
}

int session_trace_start(struct channel *ch, const struct trace_spec *given,
			struct reply *r, struct error *err)
{
	struct trace_spec spec = *given;
	struct session *s = ch->session;
	struct service *service = s->service;
	const struct trace_reader reader = { &s->vhost, on_event, can_take, on_end, ch };

	if (!spec.key.data)
		spec.key = SLICE("#");
	if (spec.share == 0)
		spec.share = 1;
	if (spec.for_ms == 0)
		spec.for_ms = FOR_DEFAULT_MS;
	if (check_access(s, &spec, err) < 0 ||
	    check_exchange(s, spec.exchange, err) < 0 || check_key(spec.key, err) < 0)
		return err->code;
	if (ch->trace)
		return error_set(err, TIDE_EEXISTS,
				 "this channel has a trace already; it ends with its "
				 "time, or with the channel");
	if (!service->tracer)
		service->tracer = tracer_create(service->broker);
	if (tracer_start(service->tracer, &spec, &reader, &ch->trace, err) < 0)
		return err->code;
	reply_ok(r);
	return TIDE_OK;
}

void session_trace_recheck(struct session *s)
{
	struct error ignored;

	for (struct channel *ch = &s->zero; ch; ch = session_next_channel(s, ch))
		if (ch->trace && check_access(s, tracer_spec(ch->trace), &ignored) < 0)
			tracer_end_take(ch->trace, "denied");
}
