#include "replay.h"

#include "base/mem.h"
#include "broker/vhost.h"
#include "candidate.h"
#include "follow/recent.h"
#include "shadow.h"

struct replay {
	struct rollout *rollout;
	struct vhost *viewer; /* of who asked */
	struct candidate *candidate;
	replay_done_fn *on_done;
	void *ctx;
	struct recent_record *items; /* of the ring as it was, which goes on */
	size_t count, at;
	size_t changed;
	size_t not_called;    /* refused then since a script's circuit was open */
	size_t needs_payload; /* cannot be told without it */
	unsigned slow;
	struct buf changes; /* the members of an array */
};

/* Free it, then tell how it went. */
static void end(struct replay *p, struct buf *document_take, const struct error *failure)
{
	p->rollout->replay = NULL;
	recent_free(p->items, p->count);
	vhost_unref(p->viewer);
	buf_deinit(&p->changes);
	candidate_destroy(p->candidate);
	p->on_done(p->ctx, document_take, failure);
	mem_free(p);
}

static void finish(struct replay *p)
{
	uint64_t hash = engine_hash(p->candidate->rules.engine);
	struct buf text = { 0 };
	struct json j = { .out = &text };

	json_object_begin(&j);
	candidate_write(p->candidate, &j);
	json_member_int(&j, "publishes", (int64_t)p->at);
	json_member_int(&j, "changed", (int64_t)p->changed);
	json_member_int(&j, "needs_payload", (int64_t)p->needs_payload);
	json_member_int(&j, "not_called", (int64_t)p->not_called);
	json_member_bool(&j, "in_force", hash == engine_hash(p->rollout->broker->engine));
	json_member_bool(&j, "stopped", p->slow >= REPLAY_SLOW_MAX);
	json_member_bool(&j, "payloads", p->rollout->broker->config.replay_payloads);
	json_member_list(&j, "changes", buf_slice(&p->changes));
	json_object_end(&j);
	end(p, &text, NULL);
}

static void write_change(struct replay *p, const struct recent_record *item,
			 unsigned difference, const struct verdict *after,
			 const struct error *err)
{
	struct json j = { &p->changes, p->changed > 1 };

	json_object_begin(&j);
	json_member_int(&j, "number", (int64_t)item->number);
	verdict_write_difference(difference, &j);
	recent_write_publish(item->vhost, item->msg, item->size, p->viewer, &j);
	json_key(&j, "before");
	verdict_write(&item->verdict, p->rollout->broker, item->error, &j);
	json_key(&j, "after");
	verdict_write(after, p->rollout->broker, err->text, &j);
	json_object_end(&j);
}

static void replay_one(struct replay *p, const struct recent_record *item)
{
	struct decision_context context = {
		.now_ms = item->msg->ts_unix_ms,
		.has_random = true,
		.random_state = item->random_state,
		.absent_bytes = item->size - item->msg->payload_len,
	};
	struct decide_spec spec = { .context = &context,
				    .vhost = item->vhost,
				    .msg = item->msg,
				    .now_ms = item->msg->ts_unix_ms };
	/* A publish that is too large is so for the store, by any rules. The
	 * permissions of its user are no longer known. */
	bool is_of_rules = item->verdict.status != TIDE_ETOOLARGE &&
			   item->verdict.status != TIDE_EDENIED;
	int64_t start = shadow_clock_ns();
	struct decision d;
	struct verdict after;
	struct error err;
	unsigned difference;

	p->at++;
	candidate_judge(p->candidate, &d,
			candidate_decide(p->candidate, &spec, NULL, &d, &err), &after);
	difference = verdict_compare(&item->verdict, &after);
	/* A decision of the circuit is not of the rules; they remember the publish
	 * all the same. */
	if (item->error && engine_is_not_called(item->error))
		p->not_called++;
	else if (is_of_rules && context.was_absent_read)
		p->needs_payload++;
	else if (is_of_rules && difference != VERDICT_SAME &&
		 ++p->changed <= REPLAY_CHANGES_MAX)
		write_change(p, item, difference, &after, &err);
	decide_deinit(&d);
	p->slow += shadow_clock_ns() - start >= SHADOW_SLOW_NS;
}

static bool is_over(const struct replay *p)
{
	return p->at == p->count || p->slow >= REPLAY_SLOW_MAX;
}

static void on_idle(uv_idle_t *handle)
{
	struct replay *p = ((struct candidate *)handle->data)->ctx;
	uint64_t start = uv_hrtime();

	while (!is_over(p) && uv_hrtime() - start < REPLAY_SLICE_NS)
		replay_one(p, &p->items[p->at]);
	if (is_over(p))
		finish(p);
}

static void on_loaded(void *ctx, const struct error *result)
{
	struct replay *p = ctx;

	if (result->code == TIDE_OK)
		uv_idle_start(&p->candidate->turn, on_idle);
	else
		end(p, NULL, result);
}

int replay_start(struct rollout *r, const struct replay_spec *what,
		 replay_done_fn *on_done, void *ctx, struct error *err)
{
	struct candidate_spec spec = { RULESET_REPLAY, what->dir, on_loaded, NULL };
	struct replay *p;
	int rc;

	if (r->replay)
		return error_set(err, TIDE_EBUSY, "another replay is running");
	p = mem_zalloc(sizeof(*p));
	spec.ctx = p;
	rc = candidate_create(&p->candidate, r, &spec, err);
	if (rc < 0) {
		mem_free(p);
		return rc;
	}
	p->rollout = r;
	p->viewer = vhost_ref(what->viewer);
	p->on_done = on_done;
	p->ctx = ctx;
	p->items = recent_copy(r->recent, &p->count);
	r->replay = p;
	return TIDE_OK;
}

void replay_cancel(struct rollout *r)
{
	const struct error stopping = { TIDE_ESHUTDOWN, "the broker is stopping" };

	if (r->replay)
		end(r->replay, NULL, &stopping);
}
