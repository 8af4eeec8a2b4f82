#include "move.h"

#include <inttypes.h>

#include "base/container.h"
#include "base/mem.h"
#include "route.h"
#include "broker.h"
#include "host/log.h"
#include "publish.h"
#include "queue.h"

/* A move under way: the message here waits for its copy there. */
struct move {
	STAILQ_ENTRY(move) link; /* in the broker's list of those that end */
	struct waiter waiter;
	struct broker *broker;
	struct shard *shard;
	struct entry *entry; /* moving, until the shard is closed */
	const struct move_ops *ops;
	void *ctx;
};

static void end_move(struct move *move)
{
	bool is_gone = move->shard->is_closed;

	move->ops->on_end(move->ctx, is_gone ? NULL : move->entry, move->waiter.status);
	shard_unref(move->shard);
	mem_free(move);
}

/* The message may be the copy of another one, whose move ends with it, and so on: a
 * list and no recursion, since clients make chains of any length. */
static void on_copied(struct waiter *w)
{
	struct move *move = container_of(w, struct move, waiter);
	struct broker *b = move->broker;

	if (w->status < 0 && !move->shard->is_closed)
		move->ops->on_refused(move->ctx, w->status,
				      w->text ? w->text : error_text(w->status));
	STAILQ_INSERT_TAIL(&b->ending_moves, move, link);
	if (b->is_ending_moves)
		return;
	b->is_ending_moves = true;
	while ((move = STAILQ_FIRST(&b->ending_moves)) != NULL) {
		STAILQ_REMOVE_HEAD(&b->ending_moves, link);
		end_move(move);
	}
	b->is_ending_moves = false;
}

static int publish_routed(struct decide_spec *spec, struct waiter *w,
			  struct published *out, struct error *err)
{
	const struct msg *m = spec->msg;

	if (route_check_access(spec->subject, spec->vhost, m->exchange, m->key, err) < 0)
		return err->code;
	if (m->exchange.len) {
		spec->exchange = exchange_find(spec->vhost, m->exchange);
		if (!spec->exchange)
			return vhost_refuse(spec->vhost, "exchange", m->exchange, err);
	}
	return publish_message(spec, true, w, out, err);
}

int move_publish(struct vhost *v, struct msg *m, struct waiter *w, struct error *err)
{
	struct decide_spec spec = { .vhost = v, .msg = m };
	struct published ignored;

	return publish_routed(&spec, w, &ignored, err);
}

static int publish_to(const struct move_target *to, struct vhost *v, struct msg *m,
		      struct waiter *w, struct error *err)
{
	struct decide_spec spec = { .vhost = v, .subject = to->subject, .msg = m };
	struct published out;
	int rc;

	if (!to->queue)
		rc = publish_routed(&spec, w, &out, err);
	else if (route_check_access(to->subject, v, SLICE(""), queue_slice(to->queue),
				    err) < 0)
		return err->code;
	else
		rc = publish_to_queue(to->queue, m, w, &out, err);
	if (rc < 0 || !out.is_duplicate)
		return rc;
	return error_set(err, TIDE_EEXISTS,
			 "message %016" PRIx64 " is there with the same publish id",
			 out.id);
}

#define REFUSED_LOG_MS 60000

void move_copies_tell_lost(struct queue *q, const struct msg *m, const char *why)
{
	if (!log_is_due(&q->copies_logged_ms, q->vhost->broker->now_ms, REFUSED_LOG_MS))
		return;
	log_warn("%s '%s' of vhost '%s': a script's copy to exchange '%" SLICE_FMT
		 "' is lost: %s",
		 q->topic ? "topic" : "queue", q->name, q->vhost->name,
		 SLICE_ARG(msg_exchange_word(m)), why);
}

static int publish_copy(struct queue *q, struct msg *m, struct waiter *w,
			struct error *err)
{
	m->id = broker_next_id(q->vhost->broker);
	if (!m->id)
		return id_lease_check(q->vhost->broker, err);
	return move_publish(q->vhost, m, w, err);
}

void move_copies_publish_take(struct queue *q, struct draft_copies *copies,
			      struct waiter *w)
{
	struct error err;

	for (unsigned i = 0; i < copies->count; i++) {
		struct msg *m = copies->items[i];

		if (publish_copy(q, m, w, &err) < 0)
			move_copies_tell_lost(q, m, err.text);
		msg_unref(m);
	}
	copies->count = 0;
}

static struct move *begin(struct entry *e, const struct move_ops *ops, void *ctx)
{
	struct move *move = mem_zalloc(sizeof(*move));

	waiter_init(&move->waiter, on_copied);
	move->broker = entry_queue(e)->vhost->broker;
	move->shard = shard_ref(e->shard);
	move->entry = e;
	move->ops = ops;
	move->ctx = ctx;
	return move;
}

void move_copies(struct entry *e, struct draft_copies *copies_take,
		 const struct move_ops *ops, void *ctx)
{
	struct move *move = begin(e, ops, ctx);

	/* A message that was held keeps its place in its group; so does one that has
	 * moved for that. */
	if (e->state == ENTRY_UNACKED)
		shard_suspend(e);
	else if (e->state != ENTRY_MOVING)
		shard_set_moving(e);
	move_copies_publish_take(entry_queue(e), copies_take, &move->waiter);
	waiter_done(&move->waiter, TIDE_OK, NULL);
}

int move_start(struct entry *e, struct msg *copy, const struct move_target *to,
	       const struct move_ops *ops, void *ctx)
{
	struct queue *q = entry_queue(e);
	struct move *move = begin(e, ops, ctx);
	struct error err;
	int rc;

	shard_set_moving(e);
	rc = publish_to(to, q->vhost, copy, &move->waiter, &err);
	waiter_done(&move->waiter, rc, rc < 0 ? err.text : NULL);
	return rc;
}
