#include "dead_letter.h"

#include <inttypes.h>

#include "host/log.h"
#include "broker.h"
#include "death.h"
#include "move.h"
#include "queue.h"

#define BURIED_INSTEAD "dead-lettering: %s; the message is buried instead"

static void on_refused(void *ctx, int status, const char *text)
{
	log_warn(BURIED_INSTEAD, text);
}

static void on_end(void *ctx, struct entry *e, int status)
{
	if (e && status < 0)
		shard_bury(e);
	else if (e)
		shard_remove(e, NULL);
}

static const struct move_ops ops = { on_refused, on_end };

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

/* It goes in a circle, or has its retry loop been too long? */
static bool is_over_limit(const struct entry *e)
{
	struct queue *q = entry_queue(e);
	uint32_t deaths = death_total(e->msg);

	if (deaths < q->config.death_limit)
		return false;
	q->counters.death_limited++;
	q->vhost->broker->counters.death_limited++;
	log_warn("queue '%s' of vhost '%s': a message has reached death-limit=%" PRIu32
		 "; it is buried",
		 q->name, q->vhost->name, q->config.death_limit);
	return true;
}

struct msg *dead_letter_copy(const struct entry *e, const char *reason, const char *rule)
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

void dead_letter_count(struct queue *q)
{
	q->counters.dead_lettered++;
	q->vhost->broker->counters.dead_lettered++;
}

void dead_letter(struct entry *e, const char *reason, const char *rule)
{
	struct queue *q = entry_queue(e);
	struct msg *copy = dead_letter_copy(e, reason, rule);

	if (!copy) {
		shard_bury(e);
		return;
	}
	if (move_start(e, copy, &ops, NULL) == TIDE_OK)
		dead_letter_count(q);
	msg_unref(copy);
}
