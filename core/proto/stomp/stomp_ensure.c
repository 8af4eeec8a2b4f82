#include "stomp_ensure.h"

static const struct args no_args;

int stomp_ensure_declared(struct stomp *l, struct stomp_channel *ch,
			  struct stomp_frame *f, const struct declare_spec *spec)
{
	struct reply *r = stomp_channel_part(l, ch, f);

	f->rc = session_define_declare(l->base.session, spec, r, f->err);
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}

int stomp_ensure_queue(struct stomp *l, struct stomp_channel *ch, struct stomp_frame *f,
		       struct slice name, const struct stomp_options *options)
{
	const struct declare_spec spec = { .kind = options->is_topic ? DEFINE_TOPIC
								     : DEFINE_QUEUE,
					   .name = name,
					   .args = &options->args };

	if (options->args.count == 0 && session_define_exists(l->base.session, name))
		return TIDE_OK;
	return stomp_ensure_declared(l, ch, f, &spec);
}

int stomp_ensure_bound(struct stomp *l, struct stomp_channel *ch, struct stomp_frame *f,
		       struct slice queue, const struct stomp_destination *d)
{
	const struct bind_spec spec = { .dest = queue,
					.exchange = d->exchange,
					.pattern = d->key,
					.args = &no_args };
	struct session_facts facts = session_facts(l->base.session);
	struct reply *r = stomp_channel_part(l, ch, f);

	f->rc = session_define_bind(l->base.session, &spec, r, f->err);
	if (f->rc == TIDE_ENOTFOUND)
		stomp_frame_explain(f, "not_found",
				    "NOT_FOUND - no exchange '%" SLICE_FMT
				    "' in vhost '%" SLICE_FMT "'\n",
				    SLICE_ARG(d->exchange), SLICE_ARG(facts.vhost));
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}
