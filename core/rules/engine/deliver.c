#include "deliver.h"

#include <lauxlib.h>
#include <math.h>
#include <stdio.h>

#include "base/duration.h"
#include "engine_private.h"
#include "hook.h"
#include "rules/api/draft.h"
#include "rules/api/view.h"
#include "rules/sandbox/field.h"

const char *const deliver_verdict_names[] = {
	[DELIVER_GIVE] = "give",
	[DELIVER_REFUSE] = "refuse",
	[DELIVER_LATER] = "delay",
};

#define FIELD(member, function)                                  \
	{                                                        \
		.name = #member, .push = function,               \
		.offset = offsetof(struct consumer_view, member) \
	}

static const struct view_field consumer_fields[] = {
	FIELD(address, view_push_optional),
	FIELD(channel, view_push_uint),
	FIELD(name, view_push_optional),
	FIELD(prefetch, view_push_uint),
	FIELD(protocol, view_push_text),
	FIELD(queue, view_push_slice),
	FIELD(sid, view_push_text),
	FIELD(unacked, view_push_uint),
	FIELD(user, view_push_optional),
	FIELD(vhost, view_push_slice),
	{ .name = NULL },
};
static const struct view_type consumer_type = { .number = VIEW_CONSUMER,
						.name = "consumer",
						.fields = consumer_fields };

void deliver_open(lua_State *L)
{
	view_open(L, &consumer_type);
}

struct delivering {
	struct deliver_pass *pass;
	struct draft draft;
};

static int refuse_result(lua_State *L, const struct hook_call *c)
{
	lua_pushfstring(
		L,
		"deliver must return nothing, false and a reason, or a delay of 1 or "
		"more milliseconds or like \"30s\", not %s",
		lua_isnumber(L, -2) ? lua_tostring(L, -2) : luaL_typename(L, -2));
	return hook_refuse(L, c, lua_tostring(L, -1));
}

/* The delay at -2; 0: it is none. */
static int64_t read_delay(lua_State *L)
{
	double number = lua_tonumber(L, -2);
	int64_t ms = 0;

	if (lua_type(L, -2) == LUA_TSTRING)
		return duration_parse(field_slice(L, -2), &ms) == TIDE_OK ? ms : 0;
	if (lua_type(L, -2) != LUA_TNUMBER || !(number >= 1) || !isfinite(number))
		return 0;
	return number < (double)DURATION_MAX_MS ? llround(number) : DURATION_MAX_MS;
}

static void keep_reason(lua_State *L, struct deliver_pass *p)
{
	snprintf(p->reason, sizeof(p->reason), "%s", luaL_optstring(L, -1, ""));
}

/* The two results: nothing, false or a delay; a reason. */
static int read_results(lua_State *L, struct hook_call *c, struct deliver_pass *p)
{
	bool is_given =
		lua_isnil(L, -2) || (lua_isboolean(L, -2) && lua_toboolean(L, -2));

	if (!lua_isnil(L, -1) && (is_given || lua_type(L, -1) != LUA_TSTRING))
		return hook_refuse(L, c,
				   "deliver returned a second value that is no reason "
				   "of a refusal or a delay");
	if (is_given)
		return 0;
	c->is_decided = true;
	keep_reason(L, p);
	if (!lua_isboolean(L, -2)) {
		p->verdict = DELIVER_LATER;
		p->delay_ms = read_delay(L);
		return p->delay_ms > 0 ? 0 : refuse_result(L, c);
	}
	p->verdict = DELIVER_REFUSE;
	if (p->keeps_order)
		return hook_refuse(L, c,
				   "deliver may not refuse what must keep its order, as "
				   "in a topic or a queue with order-by; return a delay");
	return 0;
}

/* deliver (msg, consumer, opts, state) -> nothing, or false or a delay, and a reason */
static int l_deliver(lua_State *L)
{
	struct hook_call *c = lua_touserdata(L, 1);
	struct delivering *d = c->ctx;

	hook_push(L, c);
	draft_push(L, &d->draft);
	view_push(L, &consumer_type, d->pass->consumer);
	hook_call_script(L, c, 2, 2);
	return read_results(L, c, d->pass);
}

bool deliver_is_used(struct engine *e, struct slice vhost, struct slice queue)
{
	const struct hook_subject subject = { .vhost = vhost, .queue = queue };

	return hook_is_for(e, SCRIPT_DELIVER, &subject);
}

static struct hook_subject subject_of(const struct deliver_pass *p)
{
	return (struct hook_subject){ .vhost = p->consumer->vhost,
				      .queue = p->consumer->queue,
				      .user = p->consumer->user,
				      .msg = p->msg };
}

int deliver_run(struct engine *e, struct deliver_pass *p, struct error *err)
{
	struct delivering d = { .pass = p };
	struct hook_call call = { .kind = SCRIPT_DELIVER,
				  .subject = subject_of(p),
				  .context = p->context,
				  .body = l_deliver,
				  .ctx = &d };
	int rc;

	p->verdict = DELIVER_GIVE;
	p->reason[0] = '\0';
	p->head = NULL;
	draft_init(&d.draft, p->msg, p->now_unix_ms, NULL);
	d.draft.use = DRAFT_DELIVER;
	d.draft.vhost = p->consumer->vhost;
	d.draft.view.attempt = p->attempt;
	d.draft.view.has_place = p->has_place;
	d.draft.view.partition = p->partition;
	d.draft.view.offset = p->offset;
	rc = hook_run(e, &call, err);
	p->file = call.file;
	p->line = call.line;
	if (rc == TIDE_OK && p->verdict == DELIVER_GIVE && d.draft.is_changed) {
		p->head = draft_build_head(&d.draft);
		if (!p->head)
			rc = error_set(err, TIDE_EBUSY, "out of memory for headers");
	}
	draft_deinit(&d.draft);
	return rc;
}
