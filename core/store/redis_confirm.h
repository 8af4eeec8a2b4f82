/* redis_confirm.h: the answers of one connection that wait until replicas have what
 * they tell of (--confirm replicas=N, synced=N).
 *
 * Behind each flush with a write goes WAIT N (and WAITAOF 1 N), one at a time. The last
 * reply to every request, from the first write on that is not confirmed, is kept until
 * a WAIT behind it is answered with N or more: its connection has answered in order, so
 * such an answer is about all that is held. With fewer, WAIT is sent again. Reads
 * behind a write are held too, and answers keep the order of the requests.
 *
 * A lost connection gives back what it holds, as unanswered: nobody was told, so it is
 * sent again, in its order, to the Redis that is found then. */
#pragma once

#include "redis_request.h"
#include "store.h"

/* Of all connections of a store. */
struct redis_confirm_level {
	struct store_confirm is;
	bool is_begun; /* answers are held */
	char text[STORE_CONFIRM_TEXT_MAX];
};

struct redis_confirm {
	const struct redis_confirm_level *level; /* given; outlives it */
	struct redis_request request;            /* WAIT */
	char text[64];
	uv_buf_t part;
	bool is_out; /* asked and not answered */
	/* Writes behind the last WAIT, or held answers, are to be confirmed. */
	bool is_due;
	bool is_look_due;           /* are there replicas, though nothing was written? */
	struct redis_requests held; /* in order; the answer of each is its `held` */
};

void redis_confirm_init(struct redis_confirm *f, const struct redis_confirm_level *level);

/* A write goes to Redis. Those of a start are confirmed with what follows. */
static inline void redis_confirm_note(struct redis_confirm *f)
{
	f->is_due = f->level->is_begun;
}

/* Ask with the next flush, if only to know whether there are replicas. */
void redis_confirm_look(struct redis_confirm *f);
/* The request to send behind this flush; NULL: none. */
struct redis_request *redis_confirm_next(struct redis_confirm *f);
/* The last answer to it. True: all that is held is confirmed. */
bool redis_confirm_reply(struct redis_confirm *f, const redisReply *reply);
/* Keep the answer, if it has to wait, as a copy. False: it has not. */
bool redis_confirm_hold(struct redis_confirm *f, struct redis_request *r,
			const redisReply *reply);
/* The next one that is held, and its answer, which is the caller's to free by mem_free;
 * NULL: there is none. */
struct redis_request *redis_confirm_take(struct redis_confirm *f, redisReply **reply);
/* The connection is gone: what is held goes before the requests of `unanswered`, of
 * which the own one is taken out. */
void redis_confirm_lose(struct redis_confirm *f, struct redis_requests *unanswered);
