#include "dead_letter.h"

#include <inttypes.h>

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "broker.h"
#include "death.h"
#include "publish.h"

#define BURIED_INSTEAD "dead-lettering: %s; the message is buried instead"

/* A move under way: the message here waits for its copy there. */
struct move {
	STAILQ_ENTRY(move) link; /* in the broker's list of those that end */
	struct waiter waiter;
	struct broker *broker;
	struct shard *shard;
	struct entry *entry; /* moving, until the shard is closed */
};

static void end_move(struct move *move)
{
	bool is_gone = move->shard->is_closed;

	if (!is_gone && move->waiter.status < 0)
		shard_bury(move->entry);
	else if (!is_gone)
		shard_remove(move->entry, NULL);
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
		log_warn(BURIED_INSTEAD, w->text ? w->text : error_text(w->status));
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

static struct msg *make_copy(const struct entry *e, uint64_t id, const char *reason,
			     const char *rule)
{
	const struct queue *q = entry_queue(e);
	const struct death death = { queue_slice(q), reason, rule, e->attempts,
				     q->vhost->broker->now_ms };
	struct death_headers headers;
	struct msg like = *e->msg;

	death_write(e->msg, &death, &headers);
	like.id = id;
	/* The copy is no second publish, wherever this has been before. */
	like.dedupe_len = like.user_len = 0;
	like.pool = NULL;
	like.due_unix_ms = 0;
	like.expires_unix_ms = 0;
	like.exchange = slice_from(q->config.dead_exchange);
	if (q->config.dead_key)
		like.key = slice_from(q->config.dead_key);
	like.headers = headers.items;
	like.header_count = (uint8_t)headers.count;
	return msg_create(&like);
}

static int publish_copy(struct queue *q, struct msg *m, struct waiter *w,
			struct error *err)
{
	struct decide_spec spec = { .vhost = q->vhost, .msg = m };
	struct published ignored;

	if (m->exchange.len) {
		spec.exchange = exchange_find(q->vhost, m->exchange);
		if (!spec.exchange)
			return error_set(err, TIDE_ENOTFOUND, "there is no exchange '%s'",
					 q->config.dead_exchange);
	}
	return publish_message(&spec, true, w, &ignored, err);
}

/* It goes in a circle, or has its retry loop been too long? */
static bool is_over_limit(const struct entry *e)
{
	struct queue *q = entry_queue(e);
	uint32_t deaths = death_total(e->msg);

	if (deaths < q->config.death_limit)
		return false;
	q->counters.death_limited++;
	q->vhost->broker->counters.death_limited++;
	log_warn("queue '%s' of vhost '%s': a message has died %" PRIu32
		 " times (death-limit=%" PRIu32 "); "
		 "it is buried",
		 q->name, q->vhost->name, deaths, q->config.death_limit);
	return true;
}

/* The copy that goes to the target; NULL: there can be none. */
static struct msg *create_copy(const struct entry *e, const char *reason,
			       const char *rule)
{
	const struct queue *q = entry_queue(e);
	struct error err;
	uint64_t id;

	if (!q->config.dead_exchange || is_over_limit(e))
		return NULL;
	id = broker_next_id(q->vhost->broker);
	if (id)
		return make_copy(e, id, reason, rule);
	if (id_lease_check(q->vhost->broker, &err) < 0)
		log_warn(BURIED_INSTEAD, err.text);
	return NULL;
}

void dead_letter(struct entry *e, const char *reason, const char *rule)
{
	struct queue *q = entry_queue(e);
	struct move *move;
	struct msg *copy;
	struct error err;
	int rc;

	copy = create_copy(e, reason, rule);
	if (!copy) {
		shard_bury(e);
		return;
	}
	move = mem_zalloc(sizeof(*move));
	waiter_init(&move->waiter, on_copied);
	move->broker = q->vhost->broker;
	move->shard = shard_ref(e->shard);
	move->entry = e;
	shard_set_moving(e);
	rc = publish_copy(q, copy, &move->waiter, &err);
	msg_unref(copy);
	if (rc == TIDE_OK) {
		q->counters.dead_lettered++;
		q->vhost->broker->counters.dead_lettered++;
	}
	waiter_done(&move->waiter, rc, rc < 0 ? err.text : NULL);
}
