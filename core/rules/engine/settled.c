#include "settled.h"

#include <assert.h>
#include <lauxlib.h>

#include "engine_private.h"
#include "hook.h"
#include "rules/api/view.h"

const char *const settled_event_names[] = {
	[SETTLED_ACK] = "ack",         [SETTLED_RETRY] = "retry",
	[SETTLED_EXPIRED] = "expired", [SETTLED_DEAD_LETTER] = "dead-letter",
	[SETTLED_BURY] = "bury",       [SETTLED_DROP] = "drop",
	[SETTLED_DROP + 1] = NULL,
};

static void push_event(lua_State *L, const void *member)
{
	lua_pushstring(L, settled_event_names[*(const enum settled_event *)member]);
}

#define FIELD(member, function)                                 \
	{                                                       \
		.name = #member, .push = function,              \
		.offset = offsetof(struct outcome_view, member) \
	}

static const struct view_field outcome_fields[] = {
	FIELD(attempts, view_push_uint),
	/* It comes first in the struct, where an offset of 0 gives the subject, too. */
	FIELD(event, push_event),
	FIELD(failures, view_push_uint),
	FIELD(group, view_push_optional),
	FIELD(queue, view_push_slice),
	FIELD(reason, view_push_text),
	FIELD(rule, view_push_text),
	FIELD(took_ms, view_push_int64),
	FIELD(user, view_push_optional),
	FIELD(vhost, view_push_slice),
	FIELD(waited_ms, view_push_int64),
	{ .name = NULL },
};
static const struct view_type outcome_type = { .number = VIEW_OUTCOME,
					       .name = "outcome",
					       .fields = outcome_fields };

void settled_open(lua_State *L)
{
	view_open(L, &outcome_type);
}

struct settled_walk {
	struct settled_pass *pass;
	struct draft draft;
	unsigned copies; /* of the scripts before the one that is asked */
};

/* settled (msg, outcome, opts, state) -> nothing */
static int l_settled(lua_State *L)
{
	struct hook_call *c = lua_touserdata(L, 1);
	struct settled_walk *s = c->ctx;

	hook_push(L, c);
	draft_push(L, &s->draft);
	view_push(L, &outcome_type, s->pass->outcome);
	hook_call_script(L, c, 2, 1);
	if (lua_isnil(L, -1))
		return 0;
	lua_pushfstring(L, "settled must return nothing, not %s: it changes no outcome",
			luaL_typename(L, -1));
	return hook_refuse(L, c, lua_tostring(L, -1));
}

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
				  .body = l_settled,
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
