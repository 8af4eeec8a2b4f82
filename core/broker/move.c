#include "move.h"

#include "base/container.h"
#include "base/mem.h"
#include "address.h"
#include "broker.h"
#include "publish.h"

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

int move_publish(struct vhost *v, struct msg *m, struct subject *subject,
		 struct waiter *w, struct error *err)
{
	struct decide_spec spec = { .vhost = v, .subject = subject, .msg = m };
	struct published ignored;

	if (address_check(subject, v, m->exchange, m->key, err) < 0)
		return err->code;
	if (m->exchange.len) {
		spec.exchange = exchange_find(v, m->exchange);
		if (!spec.exchange)
			return error_set(err, TIDE_ENOTFOUND,
					 "there is no exchange '%" SLICE_FMT "'",
					 SLICE_ARG(m->exchange));
	}
	return publish_message(&spec, true, w, &ignored, err);
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

int move_start(struct entry *e, struct msg *copy, struct subject *subject,
	       const struct move_ops *ops, void *ctx)
{
	struct vhost *v = entry_queue(e)->vhost;
	struct move *move = begin(e, ops, ctx);
	struct error err;
	int rc;

	shard_set_moving(e);
	rc = move_publish(v, copy, subject, &move->waiter, &err);
	waiter_done(&move->waiter, rc, rc < 0 ? err.text : NULL);
	return rc;
}

void move_start_all(struct entry *e, struct msg *const *copies, unsigned count,
		    const struct move_ops *ops, void *ctx)
{
	struct vhost *v = entry_queue(e)->vhost;
	struct move *move = begin(e, ops, ctx);
	struct error err;

	/* It may come again, before others of its group. */
	if (e->state == ENTRY_UNACKED)
		shard_set_moving_held(e);
	else
		shard_set_moving(e);
	for (unsigned i = 0; i < count; i++)
		if (move_publish(v, copies[i], NULL, &move->waiter, &err) < 0)
			ops->on_refused(ctx, err.code, err.text);
	waiter_done(&move->waiter, TIDE_OK, NULL);
}
