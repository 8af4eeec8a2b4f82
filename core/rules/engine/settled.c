#include "settled.h"

#include <assert.h>

#include "engine_private.h"
#include "hook.h"

struct settled_walk {
	struct settled_pass *pass;
	struct draft draft;
	unsigned copies; /* of the scripts before the one that is asked */
};

static void on_asked(struct hook_call *c, const struct error *failure)
{
	struct settled_walk *s = c->ctx;
	struct settled_pass *p = s->pass;

	while (failure->code < 0 && p->copies.count > s->copies)
		msg_unref(p->copies.items[--p->copies.count]);
	const struct settled_step step = {
		.file = c->file,
		.line = c->line,
		.event = p->outcome->event,
		.copies = p->copies.count - s->copies,
		.failure = failure,
	};
	s->copies = p->copies.count;
	if (p->on_step)
		p->on_step(p->ctx, &step);
}

bool settled_is_used(struct engine *e, struct slice vhost, struct slice queue)
{
	const struct hook_subject subject = { .vhost = vhost, .queue = queue };

	return hook_is_for(e, SCRIPT_SETTLED, &subject);
}

void settled_run(struct engine *e, struct settled_pass *p)
{
	struct settled_walk s = { .pass = p };
	struct hook_call call = { .kind = SCRIPT_SETTLED,
				  .subject = { .vhost = p->outcome->vhost,
					       .queue = p->outcome->queue,
					       .user = p->outcome->user,
					       .msg = p->msg },
				  .context = p->context,
				  .given = { &s.draft, p->outcome },
				  .ctx = &s,
				  .on_asked = on_asked };
	struct error ignored; /* on_asked was told */
	int rc;

	p->copies.count = 0;
	draft_init(&s.draft, p->msg, p->now_unix_ms, &p->copies);
	s.draft.use = DRAFT_SETTLED;
	s.draft.vhost = p->outcome->vhost;
	s.draft.view.attempt = p->outcome->attempts;
	s.draft.view.has_place = p->outcome->group.len > 0;
	s.draft.view.partition = p->outcome->partition;
	s.draft.view.offset = p->outcome->offset;
	rc = hook_run(e, &call, &ignored);
	assert(rc == TIDE_OK);
	(void)rc;
	draft_deinit(&s.draft);
}
