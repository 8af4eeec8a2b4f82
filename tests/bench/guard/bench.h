/* bench.h: what the sections of all protocols work on: a broker, its queues and
 * messages for them. */
#ifndef TIDE_GUARD_BENCH_H
#define TIDE_GUARD_BENCH_H

#include "rig.h"
#include "store/batch.h"

#define OPS 2000
#define PAYLOAD_BYTES 128
#define RANGE 50 /* messages of one ACK, where ranges are acknowledged */
/* A queue without a consumer, which publishes go to. */
#define TARGET "billing.eu.paid"

/* callgrind counts what functions of such names do (--toggle-collect). */
#define SECTION __attribute__((noinline)) static void

struct bench {
	struct rig rig;
	struct queue *memory, *durable;
	struct exchange *topic;
	struct msg *msgs[OPS];
	struct batch *batch;
	struct queue *log, *fan; /* topics, read by one group and by ten */
	struct buf publishes[2]; /* OPS requests, to the memory and the durable queue */
	struct buf to_log, to_fan;
	struct buf to_queue, to_topic; /* OPS requests, for one queue either way */
	struct rig_conn stomp;
	struct queue *mail;     /* that it is subscribed to */
	struct buf sends, acks; /* OPS frames: to TARGET, and for what it holds */
};

struct section {
	const char *name;
	void (*prepare)(struct bench *b);
	void (*run)(struct bench *b);
	void (*finish)(struct bench *b);
};

/* Abort when `rc` is an error. */
void bench_must(int rc, const char *what);

/* ---- b->msgs, and the way of each of them ---------------------------------------- */

void bench_make_msgs(struct bench *b);
void bench_drop_msgs(struct bench *b);
void bench_publish_all(struct bench *b, struct queue *q);
void bench_deal_all(struct queue *q);
void bench_store_all(struct bench *b);
/* What the line connection holds is acknowledged. */
void bench_settle_held(struct bench *b, unsigned per_request);
/* Every message that is left is delivered and acknowledged. */
void bench_drain(struct bench *b);
/* The same, and then b->msgs are dropped. */
void bench_finish(struct bench *b);

/* ---- requests --------------------------------------------------------------------- */

void bench_append_payload(struct buf *out);
void bench_feed(struct rig_conn *c, struct buf *bytes);
/* TARGET has got OPS messages, and loses them. */
void bench_finish_publish(struct bench *b);

#endif
