#include "replay.h"

#include "base/mem.h"
#include "broker/vhost.h"
#include "candidate.h"
#include "recent.h"
#include "shadow.h"

/* The ring goes on while this is under way: here is how it was. */
struct replayed {
	struct msg *msg;
	struct vhost *vhost;
	uint64_t number;
	size_t size;
	uint64_t random_state;
	char *error;
	struct verdict before;
};

struct replay {
	struct broker *broker;
	struct candidate *candidate;
	replay_done_fn *on_done;
	void *ctx;
	uv_idle_t idle;
	struct replayed *items;
	size_t count, at;
	size_t changed;
	size_t not_called;    /* refused then since a script's circuit was open */
	size_t needs_payload; /* cannot be told without it */
	unsigned slow;
	struct buf changes; /* the members of an array */
};

static void on_closed(uv_handle_t *handle)
{
	mem_free(handle->data);
}

static void free_item(struct replayed *item)
{
	msg_unref(item->msg);
	vhost_unref(item->vhost);
	mem_free(item->error);
}

/* Free it, then tell how it went. */
static void end(struct replay *p, struct buf *document_take, const struct error *failure)
{
	p->broker->replay = NULL;
	for (size_t i = 0; i < p->count; i++)
		free_item(&p->items[i]);
	mem_free(p->items);
	buf_deinit(&p->changes);
	candidate_destroy(p->candidate);
	uv_close((uv_handle_t *)&p->idle, on_closed);
	p->on_done(p->ctx, document_take, failure);
}

static void finish(struct replay *p)
{
	struct buf text;
	struct json j;

	buf_init(&text);
	json_init(&j, &text);
	json_object_begin(&j);
	candidate_write(p->candidate, &j);
	json_member_int(&j, "publishes", (int64_t)p->at);
	json_member_int(&j, "changed", (int64_t)p->changed);
	json_member_int(&j, "needs_payload", (int64_t)p->needs_payload);
	json_member_int(&j, "not_called", (int64_t)p->not_called);
	json_member_bool(&j, "in_force", candidate_is_active(p->candidate));
	json_member_bool(&j, "stopped", p->slow >= REPLAY_SLOW_MAX);
	json_member_bool(&j, "payloads", recent_has_payloads(p->broker->recent));
	json_key(&j, "changes");
	json_array_begin(&j);
	buf_append_slice(&text, buf_slice(&p->changes));
	json_array_end(&j);
	json_object_end(&j);
	end(p, &text, NULL);
}

static void write_change(struct replay *p, const struct replayed *item,
			 unsigned difference, const struct verdict *after,
			 const struct error *err)
{
	struct json j = { &p->changes, p->changed > 1 };

	json_object_begin(&j);
	json_member_int(&j, "number", (int64_t)item->number);
	json_key(&j, "differs");
	verdict_write_difference(difference, &j);
	recent_write_publish(item->vhost, item->msg, item->size, &j);
	json_key(&j, "before");
	verdict_write(&item->before, p->broker, item->error, &j);
	json_key(&j, "after");
	verdict_write(after, p->broker, err->text, &j);
	json_object_end(&j);
}

/* @param after  NULL: it cannot be told without the payload */
static void compare(struct replay *p, const struct replayed *item,
		    const struct verdict *after, const struct error *err)
{
	unsigned difference = after ? verdict_compare(&item->before, after) : 0;

	if (!after)
		p->needs_payload++;
	else if (difference != VERDICT_SAME && ++p->changed <= REPLAY_CHANGES_MAX)
		write_change(p, item, difference, after, err);
}

static void replay_one(struct replay *p, const struct replayed *item)
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
	uint64_t start = uv_hrtime();
	struct decision d;
	struct verdict after;
	struct error err;

	p->at++;
	candidate_judge(p->candidate, &d,
			candidate_decide(p->candidate, &spec, NULL, &d, &err), &after);
	/* What the circuit decided then is not of the rules; they remember the
	 * publish all the same. */
	if (item->error && engine_is_not_called(item->error))
		p->not_called++;
	else if (item->before.status != TIDE_ETOOLARGE) /* for the store, by any rules */
		compare(p, item, context.was_absent_read ? NULL : &after, &err);
	decide_deinit(&d);
	p->slow += uv_hrtime() - start >= SHADOW_SLOW_NS;
}

static bool is_over(const struct replay *p)
{
	return p->at == p->count || p->slow >= REPLAY_SLOW_MAX;
}

static void on_idle(uv_idle_t *handle)
{
	struct replay *p = handle->data;
	uint64_t start = uv_hrtime();

	while (!is_over(p) && uv_hrtime() - start < REPLAY_SLICE_NS)
		replay_one(p, &p->items[p->at]);
	if (is_over(p))
		finish(p);
}

static void take_recent(struct replay *p)
{
	const struct recent *recent = p->broker->recent;
	size_t count = recent_count(recent);

	p->items = mem_alloc((count + 1) * sizeof(*p->items));
	for (size_t i = 0; i < count; i++) {
		const struct recent_record *record = recent_get(recent, i);
		struct msg *m = recent_message(recent, record);

		if (m)
			p->items[p->count++] = (struct replayed){
				.msg = m,
				.vhost = vhost_ref(record->vhost),
				.number = record->number,
				.size = record->size,
				.random_state = record->random_state,
				.error = record->error ? mem_strdup(record->error) : NULL,
				.before = record->verdict,
			};
	}
}

static void on_loaded(void *ctx, const struct error *result)
{
	struct replay *p = ctx;

	if (result->code == TIDE_OK)
		uv_idle_start(&p->idle, on_idle);
	else
		end(p, NULL, result);
}

int replay_start(struct broker *b, struct slice dir, replay_done_fn *on_done, void *ctx,
		 struct error *err)
{
	struct candidate_spec spec = { RULESET_REPLAY, dir, on_loaded, NULL };
	struct replay *p;
	int rc;

	if (b->replay)
		return error_set(err, TIDE_EBUSY, "another replay is under way");
	p = mem_zalloc(sizeof(*p));
	spec.ctx = p;
	rc = candidate_create(&p->candidate, b, &spec, err);
	if (rc < 0) {
		mem_free(p);
		return rc;
	}
	p->broker = b;
	p->on_done = on_done;
	p->ctx = ctx;
	buf_init(&p->changes);
	take_recent(p);
	uv_idle_init(b->loop, &p->idle);
	p->idle.data = p;
	b->replay = p;
	return TIDE_OK;
}

void replay_cancel(struct broker *b)
{
	const struct error stopping = { TIDE_ESHUTDOWN, "the broker is stopping" };

	if (b->replay)
		end(b->replay, NULL, &stopping);
}
