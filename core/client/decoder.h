/* decoder.h: bytes from a broker -> replies, messages and events.
 *
 * Bytes are put into `in` in pieces of any size; decoder_next takes whole items
 * out. The slices of an item are good until the next call on the decoder. */
#pragma once

#include <sys/queue.h>

#include "base/buf.h"
#include "base/slice.h"
#include "tidemq/client.h"

/* A broker's line is a client's line (64 KiB) with some words added. */
#define DECODE_LINE_MAX (256 * 1024)

enum decoder_item_kind { ITEM_OK, ITEM_ERR, ITEM_DATA, ITEM_MSG, ITEM_EVENT };

struct decoder_item {
	enum decoder_item_kind kind;
	unsigned channel;
	struct slice word; /* ITEM_ERR: the code */
	struct slice text; /* the words, the sentence or the document; zero-terminated */
	struct tidemq_msg *msg; /* ITEM_MSG: the caller's to free */
};

/* The box of a struct tidemq_msg, so that it can wait in a list. */
struct msg_box {
	TAILQ_ENTRY(msg_box) link;
	struct tidemq_msg msg;
};

struct decoder {
	struct buf in;
	size_t body_max;
	size_t done;    /* bytes of the item given out last, still in `in` */
	size_t scanned; /* bytes that hold no line end; those behind them wait for a body
			 */
};

void decoder_init(struct decoder *d, size_t body_max);
void decoder_deinit(struct decoder *d);

/* TIDEMQ_OK with an item; TIDE_AGAIN more bytes are needed; TIDEMQ_EPROTOCOL or
 * TIDEMQ_ENOMEM with `err` filled, after which the stream is unreadable. */
TIDE_MUST_USE int decoder_next(struct decoder *d, struct decoder_item *out,
			       struct tidemq_error *err);
