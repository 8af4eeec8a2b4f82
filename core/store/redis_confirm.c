#include "redis_confirm.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "resp.h"

/* WAIT blocks the connection, so that the beat of the holder must not wait longer. */
#define WAIT_MS 1000
/* A look keeps reads waiting when replicas are missing. */
#define LOOK_MS 200

void redis_confirm_init(struct redis_confirm *f, const struct redis_confirm_level *level)
{
	*f = (struct redis_confirm){ .level = level };
	TAILQ_INIT(&f->held);
}

void redis_confirm_look(struct redis_confirm *f)
{
	f->is_look_due = f->level->is.replicas > 0;
}

struct redis_request *redis_confirm_next(struct redis_confirm *f)
{
	int ms = f->is_due || !TAILQ_EMPTY(&f->held) ? WAIT_MS : LOOK_MS;
	int len;

	if (f->is_out || !(f->is_due || f->is_look_due))
		return NULL;
	/* A replica that is asked while it has not synced yet tells so only with its next
	 * beat, within a second. After WAIT it has. */
	if (f->level->is.is_synced)
		len = snprintf(f->text, sizeof(f->text),
			       "WAIT %u %d\r\nWAITAOF 1 %u %d\r\n", f->level->is.replicas,
			       ms / 2, f->level->is.replicas, ms / 2);
	else
		len = snprintf(f->text, sizeof(f->text), "WAIT %u %d\r\n",
			       f->level->is.replicas, ms);
	f->part = uv_buf_init(f->text, (unsigned)len);
	f->request = (struct redis_request){ .parts = &f->part,
					     .part_count = 1,
					     .replies = f->level->is.is_synced ? 2 : 1 };
	f->is_out = true;
	f->is_due = f->is_look_due = false;
	return &f->request;
}

bool redis_confirm_reply(struct redis_confirm *f, const redisReply *reply)
{
	long long replicas = -1;

	f->is_out = false;
	if (!f->level->is.is_synced && reply->type == REDIS_REPLY_INTEGER)
		replicas = reply->integer;
	else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
		 reply->element[0]->integer > 0)
		replicas = reply->element[1]->integer;
	if (replicas >= (long long)f->level->is.replicas)
		return true;
	/* After an error it is sent again with the next beat. */
	f->is_due |= reply->type != REDIS_REPLY_ERROR && !TAILQ_EMPTY(&f->held);
	return false;
}

bool redis_confirm_hold(struct redis_confirm *f, struct redis_request *r,
			const redisReply *reply)
{
	if (r->answered < r->replies || (!r->is_write && TAILQ_EMPTY(&f->held)))
		return false;
	r->held = resp_copy(reply);
	TAILQ_INSERT_TAIL(&f->held, r, entry);
	return true;
}

struct redis_request *redis_confirm_take(struct redis_confirm *f, redisReply **reply)
{
	struct redis_request *r = TAILQ_FIRST(&f->held);

	if (!r)
		return NULL;
	TAILQ_REMOVE(&f->held, r, entry);
	*reply = r->held;
	return r;
}

void redis_confirm_lose(struct redis_confirm *f, struct redis_requests *unanswered)
{
	struct redis_request *r;

	if (f->is_out)
		TAILQ_REMOVE(unanswered, &f->request, entry);
	f->is_out = false;
	TAILQ_FOREACH (r, &f->held, entry) {
		mem_free(r->held);
		r->was_lost = true;
	}
	TAILQ_CONCAT(&f->held, unanswered, entry);
	TAILQ_CONCAT(unanswered, &f->held, entry);
}
