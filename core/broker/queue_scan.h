/* queue_scan.h: a search through a queue: its messages in one state that match, over all
 * shards, in the order of their places.
 *
 * A place is a score and an id: the rank of a ready message, the time of any other. So
 * one place says for all shards where to go on. A search looks at a bounded number of
 * messages and bytes. It goes on over several turns of the event loop. */
#pragma once

#include "base/msg.h"
#include "broker.h"
#include "shard/shard.h"

#define QUEUE_SCAN_MESSAGES_MAX 10000
#define QUEUE_SCAN_BYTES_MAX ((size_t)64 << 20)

struct queue;
struct queue_scan;

struct queue_scan_ops {
	/* A message that matches; it is good for the call. False: that is enough. */
	bool (*on_match)(struct queue_scan *scan, struct shard *sh,
			 const struct shard_row *row);
	/* The search has ended. Call queue_scan_deinit, now or later. */
	void (*on_end)(struct queue_scan *scan);
};

struct queue_scan {
	const struct queue_scan_ops *ops;
	const struct msg_match *match;
	struct place next; /* what is before it has been looked at */
	bool is_whole;     /* nothing is behind */
	uint64_t searched; /* messages */
	struct error err;  /* its code < 0: the search has failed */

	/* The rest is its own. */
	struct job job;
	struct broker *broker;
	size_t bytes;
	size_t chunk_bytes;
	unsigned asking; /* shards that wait for Redis */
	unsigned shard_count;
	struct shard_scan *shards;
};

/* `ops` and `match` are set.
 *
 * @param rows  how many messages of a shard may be of use, at least */
void queue_scan_init(struct queue_scan *scan, const struct queue *q,
		     enum entry_state state, unsigned rows);
/* Begin at a place. The search may end within the call: at once, when `err` is set. */
void queue_scan_begin(struct queue_scan *scan, struct place from);
/* After on_end. */
void queue_scan_deinit(struct queue_scan *scan);
