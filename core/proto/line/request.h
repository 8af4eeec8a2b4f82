/* request.h: one line of the protocol, taken apart.
 *
 * Everything points into the line, whose percent-encoded values are decoded in
 * place; it is good as long as the line is. */
#pragma once

#include "base/args.h"
#include "base/error.h"
#include "base/msg.h"
#include "base/slice.h"
#include "ops/operation.h"

#define REQUEST_WORDS_MAX 4
#define REQUEST_OPTIONS_MAX 64
#define REQUEST_FLAGS_MAX 8
#define REQUEST_CHANNEL_MAX 65535
#define REQUEST_PAYLOAD_ABSURD (UINT64_C(1) << 53) /* a length that is no length */

struct request_option {
	struct slice name;
	struct slice value;
};

struct verb;

struct request {
	struct error *err; /* where the first error goes */
	int rc;
	unsigned channel;
	const struct verb *verb; /* NULL: it is an operation, or cannot be read */
	const struct operation *operation; /* likewise */
	const char *name;                  /* "PUB", "RULES show"; NULL: neither */
	unsigned features;                 /* VERB_* of that */
	unsigned min_words, max_words;
	unsigned word_count;
	unsigned option_count;
	unsigned flag_count;
	unsigned header_count;
	bool is_quiet;
	uint64_t payload_len;
	struct slice tags; /* of a verb with tags, ids or a list: the words with them */
	struct slice words[REQUEST_WORDS_MAX];
	struct slice flags[REQUEST_FLAGS_MAX];
	struct request_option options[REQUEST_OPTIONS_MAX];
	struct msg_header headers[MSG_HEADERS_MAX];
};

struct line;
struct reply;

enum {
	VERB_PAYLOAD = 1 << 0,     /* ends in a length, and a payload follows */
	VERB_HEADERS = 1 << 1,     /* takes h:name=value */
	VERB_ANY_OPTIONS = 1 << 2, /* options are the business of a script or a table */
	VERB_TAGS = 1 << 3,        /* takes a list of tags and ranges */
	VERB_ANSWERS = 1 << 4,     /* is asked for its answer: no `quiet` */
	VERB_NO_CHANNEL = 1 << 5,  /* speaks of a channel that need not be open */
	VERB_DOCUMENT = 1 << 6,    /* its answer may be large, or long in the making */
	VERB_LIST = 1 << 8,        /* takes more words like the last one */
	VERB_NO_LOGIN = 1 << 10,   /* who has not logged in may ask it, too */
	VERB_TRANSACTED = 1 << 9,  /* between BEGIN and COMMIT it is part of those */
};

#define VERB_NAME_MAX 15

/* A verb of the path of messages or of the connection: what it takes, and what does it.
 * All other verbs are operations (ops/operation.h). Add one by a row in request.c and a
 * section in docs/protocol.md. */
struct verb {
	char name[VERB_NAME_MAX + 1]; /* capital letters, then zeros */
	unsigned count;               /* of its words */
	const char *words; /* their names, separated by spaces; NULL: there are none */
	unsigned features;
	const struct parameter *takes; /* its options and flags; NULL: there are none */
	/* Read the words and options, check them, and call the session. Finish `r` now or
	 * later, or return an error that is in q->err, and leave `r` alone: it is then
	 * the answer. With VERB_NO_CHANNEL and VERB_PAYLOAD `r` is NULL. */
	int (*run)(struct line *l, struct request *q, struct reply *r);
};

/* Take a line apart; `line` is without its end. Name and channel are set if they can be
 * read, even with an error. `*is_lost`: the length of a payload cannot be read, and the
 * stream cannot continue. Otherwise payload_len is good, even with an error. */
TIDE_MUST_USE int request_parse(struct request *r, char *line, size_t len, bool *is_lost,
				struct error *err);

/* The features of a line that is not to be taken apart yet; 0 when it has no verb. */
unsigned request_features(struct slice line);

/* The option's value; data == NULL when it is not there. */
struct slice request_option(const struct request *r, const char *name);
bool request_has_flag(const struct request *r, const char *name);

/* A word; `what` is "a queue". */
struct slice request_name(struct request *r, unsigned word, const char *what);
/* The same, but '-' is the empty word. */
struct slice request_word(struct request *r, unsigned word, const char *what);
void request_check_name(struct request *r, struct slice name, const char *what);

const struct verb *verb_find(struct slice name);
/* All of them, ended by one without a name. */
const struct verb *verb_table(void);
/* The features of an operation, as of a verb. */
unsigned verb_features(const struct operation *o);
/* Has the verb an option, or a flag, of that name? */
bool verb_takes(const struct verb *v, struct slice name, bool is_flag);
/* Do what was asked for: as `run` of a verb, or whatever the operation does. */
int verb_run(struct line *l, struct request *q, struct reply *r);
