#include "bench.h"
#include "session/session_private.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/delivery.h"
#include "redis_stand_in.h"

#define KEYS 8

void bench_must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "hot_paths: %s: error %d\n", what, rc);
	abort();
}

static const char *const keys[KEYS] = {
	"orders.eu.paid",     "orders.us.paid",   "orders.eu.sent.express",
	"orders.asia.failed", "stock.eu.changed", "orders.eu.paid.again",
	"users.created",      "orders.us.lost",
};

static struct msg *make_msg(struct bench *b, const char *exchange, const char *key)
{
	struct publish_spec spec = { .exchange = slice_from(exchange),
				     .key = slice_from(key),
				     .payload_len = PAYLOAD_BYTES };
	struct error err;
	struct msg *m;

	bench_must(
		session_publish_prepare(b->rig.line.protocol->session, &spec, &m, &err),
		"a message");
	memset(msg_payload_room(m), 'x', PAYLOAD_BYTES);
	return m;
}

void bench_make_msgs(struct bench *b)
{
	for (int i = 0; i < OPS; i++)
		b->msgs[i] = make_msg(b, "orders", keys[i % KEYS]);
}

void bench_drop_msgs(struct bench *b)
{
	for (int i = 0; i < OPS; i++) {
		msg_unref(b->msgs[i]);
		b->msgs[i] = NULL;
	}
}

void bench_publish_all(struct bench *b, struct queue *q)
{
	struct shard *sh = queue_shard(q, 0);

	for (int i = 0; i < OPS; i++)
		shard_publish(sh, b->msgs[i], 0, NULL, false);
}

void bench_deal_all(struct queue *q)
{
	while (delivery_turn(q))
		;
}

void bench_store_all(struct bench *b)
{
	journal_flush(b->rig.service->broker->journal);
	redis_stand_in_answer();
}

void bench_settle_held(struct bench *b, unsigned per_request)
{
	struct channel *ch = rig_channel(&b->rig);
	const struct entry *e;
	struct error err;

	while ((e = held_from(&ch->held, 0)) != NULL) {
		struct tag_range range = { e->tag, e->tag + per_request - 1 };
		struct settle_spec spec = { .how = SETTLE_ACK,
					    .ranges = &range,
					    .count = 1 };

		bench_must(session_settle(ch, &spec, reply_create(ch, false), &err),
			   "settle");
	}
}

void bench_drain(struct bench *b)
{
	do {
		rig_settle(&b->rig);
		rig_send(&b->rig.line);
		bench_settle_held(b, RANGE);
	} while (!service_is_idle(b->rig.service));
	rig_send(&b->rig.line);
	rig_send(&b->stomp);
	if (queue_count(b->memory, ENTRY_READY) || queue_count(b->durable, ENTRY_READY) ||
	    b->rig.service->broker->env.memory_bytes)
		bench_must(-1, "messages are left");
}

void bench_finish(struct bench *b)
{
	bench_drain(b);
	bench_drop_msgs(b);
}

void bench_feed(struct rig_conn *c, struct buf *bytes)
{
	rig_feed(c, (char *)buf_slice(bytes).data, buf_len(bytes));
}

void bench_append_payload(struct buf *out)
{
	memset(buf_reserve(out, PAYLOAD_BYTES), 'x', PAYLOAD_BYTES);
	buf_grow(out, PAYLOAD_BYTES);
}

void bench_finish_publish(struct bench *b)
{
	rig_send(&b->rig.line);
	if (queue_count(rig_queue(&b->rig, TARGET), ENTRY_READY) != OPS)
		bench_must(-1, "not every message has been routed");
	rig_ask(&b->rig, "PURGE " TARGET);
	bench_drain(b);
}
