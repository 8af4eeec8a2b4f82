#include "deliver.h"

#include <lauxlib.h>
#include <math.h>
#include <stdio.h>

#include "base/duration.h"
#include "engine_private.h"
#include "hook.h"
#include "rules/api/draft.h"
#include "rules/sandbox/field.h"

const char *const deliver_verdict_names[] = {
	[DELIVER_GIVE] = "give",
	[DELIVER_REFUSE] = "refuse",
	[DELIVER_LATER] = "delay",
};

/* The delay on the top; 0: it is none. */
static int64_t read_delay(lua_State *L)
{
	double number = lua_tonumber(L, -1);
	int64_t ms = 0;

	if (lua_type(L, -1) == LUA_TSTRING)
		return duration_parse(field_slice(L, -1), &ms) == TIDE_OK ? ms : 0;
	if (!(number >= 1) || !isfinite(number))
		return 0;
	return number < (double)DURATION_MAX_MS ? llround(number) : DURATION_MAX_MS;
}

static void take_answer(lua_State *L, const struct use_call *c, unsigned result)
{
	struct hook_call *call = c->ctx;
	struct deliver_pass *p = call->ctx;

	if (result & (RESULT_NIL | RESULT_TRUE))
		return;
	call->is_decided = true;
	p->verdict = result == RESULT_FALSE ? DELIVER_REFUSE : DELIVER_LATER;
	if (p->verdict == DELIVER_LATER) {
		p->delay_ms = read_delay(L);
		if (p->delay_ms == 0)
			use_refuse_result(L, c);
	} else if (p->keeps_order) {
		use_blame(L, c);
		luaL_error(L, "deliver may not refuse what must keep its order, as in a "
			      "topic or a queue with order-by; return a delay");
	}
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
	struct draft draft;
	struct script_refusal refusal = { false, "" };
	struct hook_call call = { .kind = SCRIPT_DELIVER,
				  .subject = subject_of(p),
				  .context = p->context,
				  .given = { &draft, p->consumer },
				  .take = take_answer,
				  .ctx = p,
				  .refusal = &refusal };
	int rc;

	p->verdict = DELIVER_GIVE;
	p->head = NULL;
	draft_init(&draft, p->msg, p->now_unix_ms, NULL);
	draft.use = DRAFT_DELIVER;
	draft.vhost = p->consumer->vhost;
	draft.view.attempt = p->attempt;
	draft.view.has_place = p->has_place;
	draft.view.partition = p->partition;
	draft.view.offset = p->offset;
	rc = hook_run(e, &call, err);
	p->file = call.file;
	p->line = call.line;
	snprintf(p->reason, sizeof(p->reason), "%.*s", DELIVER_REASON_MAX - 1,
		 refusal.reason);
	if (rc == TIDE_OK && p->verdict == DELIVER_GIVE && draft.is_changed) {
		p->head = draft_build_head(&draft);
		if (!p->head)
			rc = error_set(err, TIDE_EBUSY, "out of memory for headers");
	}
	draft_deinit(&draft);
	return rc;
}
