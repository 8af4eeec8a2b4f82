/* stomp_destination.h: where a SEND goes to, and where a SUBSCRIBE reads from:
 * /queue/<name>, /exchange/<name>/<key>, … In a name a '/' is written %2F. */
#pragma once

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

/* @param room  takes what is decoded: STOMP_DESTINATION_MAX bytes; `out` refers to it */
TIDE_MUST_USE int stomp_destination_parse(struct slice text, char *room,
					  struct stomp_destination *out,
					  struct error *err);
/* The same for a frame: gives f->rc. */
TIDE_MUST_USE int stomp_destination_read(struct stomp_frame *f, struct slice text,
					 char *room, struct stomp_destination *out);
