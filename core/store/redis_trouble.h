/* redis_trouble.h: what is wrong with a Redis that is connected: it refuses requests, or
 * does not answer.
 *
 * enum store_trouble has the kinds. A trouble begins with the first refusal. It has ended
 * when none of its kind came for five seconds: the beat of redis_conn asks for a write
 * that changes nothing, so Redis is asked though nobody publishes. The log has one line
 * for the begin and one for the end. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/percent.h"
#include "redis_request.h"
#include "store.h"

/* The key for which a request was refused with WRONGTYPE. Redis does not name the
 * key. The request does: its commands are read again, and Redis is asked for the type
 * of each key of theirs. layout.h knows which type each should have. */
struct redis_wrong_key {
	struct redis_request request; /* TYPE of each key that it may be */
	struct buf bytes;
	uv_buf_t part;
	struct buf names; /* of these keys, each with a zero behind it */
	size_t next;      /* in them: the one of the next reply */
	bool was_known;   /* it is asked for again */
	bool is_out;      /* asked and not answered: nothing else is looked for */
	char found[600];  /* its name; "": there is none */
	char text[ERROR_TEXT_MAX]; /* what is wrong with it, and what to do; "": nothing
				    */
};

struct redis_trouble {
	const char *address; /* for people */
	struct {
		uint64_t began_ms; /* 0: it is not so */
		uint64_t last_ms;
		char address[URL_ADDRESS_MAX]; /* where it began */
	} kinds[STORE_TROUBLES];
	uint64_t *refused; /* requests, by kind: STORE_REFUSALS of them */
	struct redis_wrong_key key;
	char replicas[ERROR_TEXT_MAX]; /* how many it lacks; "": it is not known */
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
/* Fewer replicas than have to confirm what Redis has, or enough again. */
void redis_trouble_unconfirmed(struct redis_trouble *t, bool is_unconfirmed,
			       uint64_t now_ms);
void redis_trouble_heard(struct redis_trouble *t, uint64_t now_ms);
/* Forget all troubles: the Redis may be another one. */
void redis_trouble_forget(struct redis_trouble *t);
/* Now and then, while it is connected. True: t->key.request is to be sent, which tells
 * whether the key still has another type. */
bool redis_trouble_tick(struct redis_trouble *t, uint64_t now_ms);

/* One sentence, with what to do; it has no name or address. */
const char *redis_trouble_text(const struct redis_trouble *t, enum store_trouble kind);
/* min-replicas-to-write as the connection found it, and how many replicas there are. */
void redis_trouble_set_replicas(struct redis_trouble *t, uint64_t wanted, uint64_t there);

/* Is the request to be tried again, as the refusal passes? One for lack of replicas does,
 * and nothing was carried out. What was confirmed before is tried until Redis takes it.
 */
bool redis_trouble_passes(const struct redis_request *r, const redisReply *reply);
/* The kind of trouble that an error of Redis tells of. */
enum store_trouble redis_trouble_kind(const char *text);
/* The reply tells that another Redis is the master, or will be soon. */
bool redis_trouble_is_elsewhere(const redisReply *reply);
