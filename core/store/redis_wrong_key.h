/* redis_wrong_key.h: which key a request was refused for with WRONGTYPE.
 *
 * Redis does not name the key. The request does: its commands are read again, and Redis
 * is asked for the type of each key of the command that was refused. layout.h knows which
 * type each should have. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "redis_request.h"

struct redis_wrong_key {
	struct redis_request request; /* TYPE of each key that it may be */
	struct buf bytes;
	uv_buf_t part;
	struct buf names; /* of these keys, each with a zero behind it */
	size_t next;      /* in them: the one of the next reply */
	bool is_out;      /* asked and not answered: nothing else is looked for */
	char found[600];  /* its name; "": there is none */
	char text[ERROR_TEXT_MAX]; /* what is wrong with it, and what to do; "": nothing
				    */
};

void redis_wrong_key_deinit(struct redis_wrong_key *k);
/* A command of `r` was refused: the one that is answered now, or the element-th within
 * the transaction that is. True: `request` is to be sent. */
bool redis_wrong_key_look(struct redis_wrong_key *k, const struct redis_request *r,
			  bool is_whole, size_t element);
/* Ask again for the one that was found. True: `request` is to be sent. */
bool redis_wrong_key_again(struct redis_wrong_key *k);
/* A reply; after the last one `text` is what is so. */
void redis_wrong_key_reply(struct redis_wrong_key *k, const redisReply *reply);
