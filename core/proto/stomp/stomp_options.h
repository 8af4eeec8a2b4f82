/* stomp_options.h: the options of a queue in the headers of a SUBSCRIBE or a SEND.
 *
 * Those of RabbitMQ that mean the same here have their names. In a SUBSCRIBE others are
 * named as in DECLARE, with x- before them: x-retry, x-shards. In a SEND such headers are
 * the message's. */
#pragma once

#include "base/args.h"
#include "base/position.h"
#include "stomp_frame.h"

struct stomp_options {
	struct args args;     /* of DECLARE; those that are as by default are left out */
	bool is_topic;        /* x-queue-type:stream */
	struct slice name;    /* x-queue-name; data == NULL: none */
	int32_t priority;     /* of the consumer: x-priority */
	struct position from; /* x-stream-offset */
};

/* Gives f->rc; on an error there is nothing to free. */
TIDE_MUST_USE int stomp_options_read(struct stomp_options *o, struct stomp_frame *f);
/* In a SEND to a queue, it is the queue's. */
bool stomp_options_is_of_queue(struct slice name);
void stomp_options_deinit(struct stomp_options *o);
