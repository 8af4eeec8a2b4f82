#include "dead_letter.h"

#include <inttypes.h>

#include "host/log.h"
#include "broker.h"
#include "death.h"
#include "move.h"
#include "queue.h"

/* A topic keeps what it dead-letters. */
static void log_refused(const struct queue *q, const char *text)
{
	log_warn("dead-lettering: %s; the message is %s instead", text,
		 q->topic ? "given up" : "buried");
}

static void on_refused(void *ctx, int status, const char *text)
{
	log_refused(ctx, text);
}

static void on_end(void *ctx, struct entry *e, int status)
{
	if (e && status < 0)
		queue_bury(e);
	else if (e)
		shard_remove(e, NULL);
}

static const struct move_ops ops = { on_refused, on_end };

/* The script has chosen the target. */
static bool has_own(const struct retry_extra *extra)
{
	return extra && extra->exchange;
}

bool dead_letter_has_target(const struct queue *q, const struct retry_extra *extra)
{
	return has_own(extra) || q->config.dead_exchange;
}

static struct msg *make_copy(const struct queue *q, const struct msg *m, uint64_t id,
			     const struct dead_letter_facts *f)
{
	const struct death death = {
		.queue = queue_slice(q),
		.reason = f->reason,
		.rule = f->rule,
		.publish_id = queue_publish_id(q, m),
		.attempts = f->attempts,
		.now_ms = q->vhost->broker->now_ms,
	};
	struct death_headers headers;
	struct msg like = *m;
	const char *key;

	death_write(m, &death, &headers);
	like.id = id;
	/* The copy is no second publish, wherever this has been before. */
	like.dedupe_len = like.user_len = 0;
	like.pool = NULL;
	like.due_unix_ms = 0;
	like.expires_unix_ms = 0;
	like.exchange = slice_from(has_own(f->extra) ? f->extra->exchange
						     : q->config.dead_exchange);
	key = has_own(f->extra) ? f->extra->key : q->config.dead_key;
	if (key)
		like.key = slice_from(key);
	like.headers = headers.items;
	like.header_count = (uint8_t)headers.count;
	return msg_create(&like);
}

/* Does the message go in a circle, or has its retry loop been too long? */
static bool is_over_limit(struct queue *q, const struct msg *m)
{
	if (death_total(m) < q->config.death_limit)
		return false;
	q->counters.death_limited++;
	q->vhost->broker->counters.death_limited++;
	log_warn("%s '%s' of vhost '%s': a message has reached death-limit=%" PRIu32
		 "; it is %s",
		 q->topic ? "topic" : "queue", q->name, q->vhost->name,
		 q->config.death_limit, q->topic ? "given up" : "buried");
	return true;
}

static struct msg *make(struct queue *q, const struct msg *m, uint64_t id,
			const struct dead_letter_facts *f)
{
	struct msg *copy = make_copy(q, m, id, f);

	if (copy)
		STEP_TELL(&q->vhost->broker->followers, STEP_COPIED, .id = m->id,
			  .queue = q, .copy = copy);
	return copy;
}

struct msg *dead_letter_make(struct queue *q, const struct msg *m,
			     const struct dead_letter_facts *f)
{
	struct error err;
	uint64_t id;

	if (!dead_letter_has_target(q, f->extra) || is_over_limit(q, m))
		return NULL;
	id = broker_next_id(q->vhost->broker);
	if (id)
		return make(q, m, id, f);
	if (id_lease_check(q->vhost->broker, &err) < 0)
		log_refused(q, err.text);
	return NULL;
}

void dead_letter_count(struct queue *q)
{
	q->counters.dead_lettered++;
	q->vhost->broker->counters.dead_lettered++;
}

void dead_letter(struct entry *e, const struct dead_letter_facts *f)
{
	struct queue *q = entry_queue(e);
	struct msg *copy = dead_letter_make(q, e->msg, f);

	if (!copy) {
		queue_bury(e);
		return;
	}
	if (move_start(e, copy, &(struct move_target){ NULL, NULL }, &ops, q) == TIDE_OK)
		dead_letter_count(q);
	msg_unref(copy);
}
