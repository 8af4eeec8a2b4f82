/* redis_trouble.h: what is wrong with a Redis that is connected: it refuses requests, or
 * does not answer.
 *
 * store_trouble.h has the kinds. A trouble begins with the first refusal. It has ended
 * when none of its kind came for five seconds: the beat of redis_conn asks for a write
 * that changes nothing, so Redis is asked though nobody publishes. The log has one line
 * for the begin and one for the end. */
#pragma once

#include "redis_request.h"
#include "redis_wrong_key.h"
#include "store.h"

struct redis_trouble {
	const char *address; /* for people */
	struct {
		uint64_t began_ms; /* 0: it is not so */
		uint64_t last_ms;
	} kinds[STORE_TROUBLES];
	uint64_t *refused; /* requests, by kind: STORE_REFUSALS of them */
	struct redis_wrong_key key;
};

/* Both outlive it. */
void redis_trouble_init(struct redis_trouble *t, const char *address, uint64_t *refused);
void redis_trouble_deinit(struct redis_trouble *t);

static inline bool redis_trouble_has(const struct redis_trouble *t,
				     enum store_trouble kind)
{
	return t->kinds[kind].began_ms != 0;
}

/* A reply, before its owner has it: note what it refuses. True: t->key.request is to be
 * sent, which tells the key of another type.
 *
 * @param now_ms  of the loop's clock */
bool redis_trouble_reply(struct redis_trouble *t, struct redis_request *r,
			 const redisReply *reply, uint64_t now_ms);
/* A reply to t->key.request. */
void redis_trouble_key_reply(struct redis_trouble *t, const redisReply *reply,
			     uint64_t now_ms);
/* Redis owes an answer, and is silent; it has said something. */
void redis_trouble_silent(struct redis_trouble *t, uint64_t now_ms);
void redis_trouble_heard(struct redis_trouble *t, uint64_t now_ms);
/* Nothing is known of Redis any more. */
void redis_trouble_forget(struct redis_trouble *t);
/* Now and then, while it is connected. True: t->key.request is to be sent, which tells
 * whether the key still has another type. */
bool redis_trouble_tick(struct redis_trouble *t, uint64_t now_ms);
