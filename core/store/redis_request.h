/* redis_request.h: one request to Redis, and how its answers come back.
 *
 * A request lies inside whatever structure its owner has for it. From
 * redis_conn_send until its last answer it belongs to the connection, which
 * keeps pointers to the bytes: they are written straight from the owner's
 * memory, and written again after a reconnect. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/slice.h"

#define REDIS_REQUEST_PARTS_MAX 256

struct redis_request;

/* A reply came: the request->answered-th of request->replies. After the last
 * one the request is the owner's again and may be freed right here. When the
 * connection is lost in between, all replies come again from the first.
 * `reply` is borrowed. NULL: the store is being closed, nothing else comes. */
typedef void (*redis_reply_fn)(struct redis_request *request, const redisReply *reply);

struct redis_request {
	TAILQ_ENTRY(redis_request) entry;
	const uv_buf_t *parts; /* the bytes, in 1 to REDIS_REQUEST_PARTS_MAX pieces */
	unsigned part_count;
	unsigned replies; /* how many Redis will give; at least 1 */
	unsigned slot;    /* of all its keys, in a Redis Cluster */
	uint64_t order;   /* of slots.h */
	uint64_t number;  /* that it was counted by, when it is a write; 0: it was not */
	/* Clients are told that Redis has it: its last reply comes when it is counted. */
	bool is_write;
	/* The connection's: what counts it, sent behind the parts. NULL: nothing does. */
	const uv_buf_t *count;
	unsigned answered;
	bool is_sent;
	/* A connection was lost after it was written to it: perhaps it was carried out
	 * there, whatever is answered now. */
	bool was_lost;
	bool is_refused;  /* one of the answers was an error */
	bool is_replayed; /* a former master had it already: redis_replay.h */
	size_t bytes;
	uint64_t asked_ns; /* of uv_hrtime */
	redisReply *held;  /* redis_confirm's, while it holds the last answer */
	redis_reply_fn on_reply;
};

TAILQ_HEAD(redis_requests, redis_request);

static inline uv_buf_t redis_request_part(struct slice bytes)
{
	return uv_buf_init((char *)(uintptr_t)bytes.data, (unsigned)bytes.len);
}
