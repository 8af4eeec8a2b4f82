/* stomp_destination.h: where a SEND goes to, and where a SUBSCRIBE reads from:
 * /queue/<name>, /exchange/<name>/<key>, … In a name a '/' is written %2F. */
#pragma once

#include "base/args.h"
#include "base/position.h"
struct declare_spec;
struct stomp;
struct stomp_channel;
#include "stomp_frame.h"

#define STOMP_DESTINATION_MAX 2048 /* bytes of its text */
#define STOMP_TOPIC_EXCHANGE "amq.topic"

enum stomp_place {
	STOMP_QUEUE,       /* /queue/<name>, or <name> alone */
	STOMP_AMQ_QUEUE,   /* /amq/queue/<name> */
	STOMP_REPLY_QUEUE, /* /reply-queue/<name> */
	STOMP_TEMP_QUEUE,  /* /temp-queue/<name> */
	STOMP_EXCHANGE,    /* /exchange/<name>[/<key>] */
	STOMP_TOPIC,       /* /topic/<key> */
};

struct stomp_destination {
	enum stomp_place place;
	struct slice exchange; /* empty: the default exchange */
	struct slice key;      /* of a queue: its name */
};

/* The options of a queue in the headers of a SUBSCRIBE or a SEND. Options of RabbitMQ
 * that mean the same here have their names. In a SUBSCRIBE, others are named as in
 * DECLARE with x- before them: x-retry, x-shards. In a SEND, such headers belong to the
 * message. */
struct stomp_options {
	struct args args;     /* of DECLARE; those that are as by default are left out */
	bool is_topic;        /* x-queue-type:stream */
	struct slice name;    /* x-queue-name; data == NULL: none */
	int32_t priority;     /* of the consumer: x-priority */
	struct position from; /* x-stream-offset */
};

/* @param room  takes what is decoded: STOMP_DESTINATION_MAX bytes; `out` refers to it */
TIDE_MUST_USE int stomp_destination_parse(struct slice text, char *room,
					  struct stomp_destination *out,
					  struct error *err);
/* The same for a frame: gives f->rc. */
TIDE_MUST_USE int stomp_destination_read(struct stomp_frame *f, struct slice text,
					 char *room, struct stomp_destination *out);

/* Gives f->rc; on an error there is nothing to free. */
TIDE_MUST_USE int stomp_destination_read_options(struct stomp_options *o,
						 struct stomp_frame *f);
/* In a SEND to a queue, it is the queue's. */
bool stomp_destination_is_option(struct slice name);
void stomp_destination_free_options(struct stomp_options *o);

/* The queues, exchanges and bindings that destinations need. Each is declared by a
 * request of its own, whose answer is a part of the answer to the frame. */
TIDE_MUST_USE int stomp_destination_declare(struct stomp *l, struct stomp_channel *ch,
					    struct stomp_frame *f,
					    const struct declare_spec *spec);
/* A queue with these options, or if there are none, with any. */
int stomp_destination_ensure_queue(struct stomp *l, struct stomp_channel *ch,
				   struct stomp_frame *f, struct slice name,
				   const struct stomp_options *options);
/* The queue gets what its destination, an exchange with a pattern, gets. */
TIDE_MUST_USE int stomp_destination_bind(struct stomp *l, struct stomp_channel *ch,
					 struct stomp_frame *f, struct slice queue,
					 const struct stomp_destination *d);
