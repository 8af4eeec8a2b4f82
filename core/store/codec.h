/* codec.h: a message as it lies in Redis: one MessagePack array.
 *
 *   [1, exchange, key, ts, due, expires, priority, rank, {headers}, payload]
 *
 *   [2, exchange, key, ts, due, expires, priority, rank, {headers}, {facts}, payload]
 *
 * The second form is that of a message of which there is more to say. Its facts are
 * integers by name: "ack-timeout" is its lease in ms. A reader skips those that it does
 * not know.
 *
 * The version comes first. Times are unix milliseconds, due and expires are 0
 * when there is none. The rank is an integer when it is one, else a float64.
 * A header's value and the payload are a str when they are UTF-8 and no longer
 * than CODEC_TEXT_MAX, else a bin; a reader takes either.
 * The id is not in it: it is the hash field under which the message is kept. */
#pragma once

#include "base/buf.h"
#include "base/msg.h"

#define CODEC_VERSION 1
#define CODEC_VERSION_FACTS 2
#define CODEC_TEXT_MAX (64 * 1024)

/* Room that is enough for the head of `m`: whatever is in the head is in the
 * allocation of the message too, where it takes more. */
static inline size_t codec_head_max(const struct msg *m)
{
	return m->bytes - m->payload_len;
}

/* Write the whole array but for the bytes of the payload, which are to follow as they
 * are; gives the place after the head. When a message expires is its queue's business. */
char *codec_put_head(char *at, const struct msg *m, double rank, int64_t expires_unix_ms);

/* A message with one reference. Nothing about the bytes is trusted. `known` is what
 * they do not say: its id, and the pool for its memory.
 *
 * @return  TIDE_OK; TIDE_ESTORE the bytes are no message (`err` says where
 *          they are wrong); TIDE_ELIMIT there is no memory for the message */
TIDE_MUST_USE int codec_decode(struct slice body, const struct msg *known,
			       struct msg **out, double *rank, struct error *err);
