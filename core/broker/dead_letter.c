#include "dead_letter.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "broker.h"
#include "publish.h"

#define DEATH_HEADERS 7
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

static unsigned copy_headers(const struct msg *m, struct msg_header *out)
{
	unsigned count = 0;

	for (unsigned i = 0; i < m->header_count; i++)
		if (!slice_has_prefix(m->headers[i].name, DEAD_LETTER_PREFIX) &&
		    count < MSG_HEADERS_MAX - DEATH_HEADERS)
			out[count++] = m->headers[i];
	return count;
}

static struct msg *make_copy(const struct entry *e, uint64_t id, const char *reason,
			     const char *rule)
{
	const struct queue *q = entry_queue(e);
	struct msg_header headers[MSG_HEADERS_MAX];
	struct msg like = *e->msg;
	unsigned n = copy_headers(e->msg, headers);
	char attempts[16];

	snprintf(attempts, sizeof(attempts), "%" PRIu32, e->attempts);
	const struct msg_header death[] = {
		{ SLICE("x-death-reason"), slice_from(reason) },
		{ SLICE("x-death-queue"), queue_slice(q) },
		{ SLICE("x-death-exchange"), msg_exchange_word(e->msg) },
		{ SLICE("x-death-key"), e->msg->key },
		{ SLICE("x-death-attempts"), slice_from(attempts) },
		{ SLICE("x-death-rule"), slice_from(rule) },
	};
	memcpy(&headers[n], death, sizeof(death));
	n += sizeof(death) / sizeof(*death);

	like.id = id;
	/* The copy is no second publish, wherever this has been before. */
	like.dedupe_len = like.user_len = 0;
	like.pool = NULL;
	like.due_unix_ms = 0;
	like.expires_unix_ms = 0;
	like.exchange = slice_from(q->config.dead_exchange);
	if (q->config.dead_key)
		like.key = slice_from(q->config.dead_key);
	like.headers = headers;
	like.header_count = (uint8_t)n;
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

struct msg *dead_letter_copy(const struct entry *e, const char *reason, const char *rule)
{
	const struct queue *q = entry_queue(e);
	struct error err;
	uint64_t id;

	if (!q->config.dead_exchange)
		return NULL;
	id = broker_next_id(q->vhost->broker);
	if (id)
		return make_copy(e, id, reason, rule);
	if (id_lease_check(q->vhost->broker, &err) < 0)
		log_warn(BURIED_INSTEAD, err.text);
	return NULL;
}

void dead_letter_count(struct queue *q)
{
	q->counters.dead_lettered++;
	q->vhost->broker->counters.dead_lettered++;
}

void dead_letter(struct entry *e, const char *reason, const char *rule)
{
	struct queue *q = entry_queue(e);
	struct move *move;
	struct msg *copy;
	struct error err;
	int rc;

	copy = dead_letter_copy(e, reason, rule);
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
	if (rc == TIDE_OK)
		dead_letter_count(q);
	waiter_done(&move->waiter, rc, rc < 0 ? err.text : NULL);
}
