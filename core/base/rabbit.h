/* rabbit.h: what RabbitMQ calls the options of queues and exchanges.
 *
 * AMQP clients declare with these arguments, and `tidemq import` reads them in the file
 * of rabbitmqctl export_definitions: both by the one table. */
#pragma once

#include "args.h"

enum rabbit_kind {
	RABBIT_QUEUE = 1,
	RABBIT_STREAM = 2, /* a topic */
	RABBIT_EXCHANGE = 4,
};

#define RABBIT_DELAYED "x-delayed-message"
/* Ours for a type of theirs: "consistent-hash"; a type without another name here is
 * itself. One that delays is as its argument x-delayed-type says: any publish may be
 * delayed here.
 *
 * @param delayed  that argument; "": it is not given */
const char *rabbit_exchange_type(const char *theirs, const char *delayed);

/* Add the options that an argument is; its value is a text, of a boolean true or false.
 * False: there is no such argument, or no such option here. */
bool rabbit_argument(enum rabbit_kind kind, struct slice name, struct slice value,
		     struct args *out);
/* Those that several arguments make together: where dead messages go, and what happens
 * to a queue that is full.
 *
 * @param value  gives the value of an argument; data == NULL: it is not given */
typedef struct slice rabbit_value_fn(const void *ctx, const char *name);
void rabbit_queue_ends(rabbit_value_fn *value, const void *ctx, struct args *out);
/* Can an argument or a field of RabbitMQ's set this option? */
bool rabbit_has_option(struct slice option);
