/* verb.h: the verbs of the path of messages and of the connection: what each takes, and
 * what does it. All other verbs are operations: ops/operation.h.
 *
 * A verb is added by a line in verb.c and a section in docs/protocol.md. */
#pragma once

#include "base/args.h"
#include "request.h"

struct line;
struct reply;

enum {
	VERB_PAYLOAD = 1 << 0,     /* ends in a length, and a payload follows */
	VERB_HEADERS = 1 << 1,     /* takes h:name=value */
	VERB_ANY_OPTIONS = 1 << 2, /* options are the business of a script or a table */
	VERB_TAGS = 1 << 3,        /* takes a list of tags and ranges */
	VERB_IDS = 1 << 7,         /* takes a list of ids of messages */
	VERB_ANSWERS = 1 << 4,     /* is asked for its answer: no `quiet` */
	VERB_NO_CHANNEL = 1 << 5,  /* speaks of a channel that need not be open */
	VERB_DOCUMENT = 1 << 6,    /* its answer may be large, or long in the making */
	VERB_LIST = 1 << 8,        /* takes more words like the last one */
	VERB_NO_LOGIN = 1 << 10,   /* who has not logged in may ask it, too */
	VERB_TRANSACTED = 1 << 9,  /* between BEGIN and COMMIT it is part of those */
};

#define VERB_NAME_MAX 15

struct verb {
	char name[VERB_NAME_MAX + 1]; /* capital letters, then zeros */
	unsigned min_words, max_words;
	const char *words; /* their names, separated by spaces; NULL: there are none */
	unsigned features;
	const char *options; /* separated by spaces; NULL: none */
	const char *flags;
	/* Read the words and options, check them, and call the session. Finish `r` now or
	 * later, or return an error that is in q->err, and leave `r` alone: it is then
	 * the answer. With VERB_NO_CHANNEL and VERB_PAYLOAD `r` is NULL. */
	int (*run)(struct line *l, struct request *q, struct reply *r);
};

const struct verb *verb_find(struct slice name);
/* All of them, ended by one without a name. */
const struct verb *verb_table(void);
/* The features of an operation, as of a verb. */
unsigned verb_features(const struct operation *o);
/* A line for each verb and each operation, for people. */
void verb_help(struct buf *out);

#define COMMAND(name) \
	int command_##name(struct line *l, struct request *q, struct reply *r)

COMMAND(hello);
COMMAND(ping);
COMMAND(help);
COMMAND(quit);
COMMAND(open);
COMMAND(close);
COMMAND(publish);
COMMAND(subscribe);
COMMAND(unsubscribe);
COMMAND(get);
COMMAND(ack);
COMMAND(nack);
COMMAND(touch);
COMMAND(explain);
COMMAND(transaction_begin);
COMMAND(transaction_commit);
COMMAND(transaction_rollback);
/* What any operation of core/ops does. */
COMMAND(operation);
