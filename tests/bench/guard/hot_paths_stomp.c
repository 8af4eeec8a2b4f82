#include "hot_paths_stomp.h"
#include "session/session_private.h"

#include <inttypes.h>

#include "proto/stomp/stomp.h"

/* The channel of the only subscription, and its serial. */
#define SUBSCRIPTION 1

/* ---- publish: the bytes of a SEND that asks for no receipt ---------------------------
 */

SECTION section_stomp_publish(struct bench *b)
{
	bench_feed(&b->stomp, &b->sends);
}

/* ---- deliver: MESSAGE frames into the connection's chunks ----------------------------
 */

static void prepare_deliver(struct bench *b)
{
	bench_make_msgs(b);
	bench_publish_all(b, b->mail);
}

SECTION section_stomp_deliver(struct bench *b)
{
	bench_deal_all(b->mail);
}

/* ---- ack: a frame for each message ---------------------------------------------------
 */

static void make_acks(struct bench *b)
{
	const struct channel *ch =
		session_channel(b->stomp.protocol->session, SUBSCRIPTION);
	const struct entry *e = held_from(&ch->held, 0);

	buf_clear(&b->acks);
	for (; e; e = held_from(&ch->held, e->tag + 1)) {
		buf_printf(&b->acks,
			   "ACK\nid:%016" PRIx64 "-%" PRIu64 "-%d-%" PRIu64 "\n\n", e->id,
			   ch->session->number, SUBSCRIPTION, e->tag);
		buf_append_char(&b->acks, '\0');
	}
}

static void prepare_ack(struct bench *b)
{
	prepare_deliver(b);
	bench_deal_all(b->mail);
	make_acks(b);
}

SECTION section_stomp_ack(struct bench *b)
{
	bench_feed(&b->stomp, &b->acks);
}

static void finish_deliver(struct bench *b)
{
	make_acks(b);
	bench_feed(&b->stomp, &b->acks);
	bench_finish(b);
}

/* ---- running -------------------------------------------------------------------------
 */

const struct section hot_paths_stomp[HOT_PATHS_STOMP_COUNT] = {
	{ "stomp_publish", NULL, section_stomp_publish, bench_finish_publish },
	{ "stomp_deliver", prepare_deliver, section_stomp_deliver, finish_deliver },
	{ "stomp_ack", prepare_ack, section_stomp_ack, bench_finish },
};

static void ask(struct bench *b, const char *frame, const char *expected)
{
	struct buf text = { 0 };

	buf_append_text(&text, frame);
	buf_append_char(&text, '\0');
	rig_exchange(&b->rig, &b->stomp, &text, expected);
	buf_deinit(&text);
}

void hot_paths_stomp_init(struct bench *b)
{
	rig_ask(&b->rig, "DECLARE queue mail durable=0");
	b->mail = rig_queue(&b->rig, "mail");
	rig_open(&b->rig, &b->stomp, &stomp_protocol);
	ask(b, "CONNECT\naccept-version:1.2\nhost:/\n\n", "CONNECTED\n");
	ask(b,
	    "SUBSCRIBE\nid:0\ndestination:/amq/queue/mail\nack:client-individual\n"
	    "prefetch-count:65535\nreceipt:0\n\n",
	    "RECEIPT\n");
	for (int i = 0; i < OPS; i++) {
		buf_printf(&b->sends,
			   "SEND\ndestination:/queue/" TARGET "\ncontent-length:%d\n\n",
			   PAYLOAD_BYTES);
		bench_append_payload(&b->sends);
		buf_append_char(&b->sends, '\0');
	}
}

void hot_paths_stomp_deinit(struct bench *b)
{
	rig_close(&b->stomp);
	buf_deinit(&b->sends);
	buf_deinit(&b->acks);
}
