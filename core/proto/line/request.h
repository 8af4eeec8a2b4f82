/* request.h: one line of the protocol, taken apart.
 *
 * Everything points into the line, whose percent-encoded values are decoded in
 * place; it is good as long as the line is. */
#pragma once

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

/* The rest reads words and options for a command. The first that is wrong is told in
 * the `err` of request_parse, and is in r->rc from then on; what is read is not good. */

/* A word; `what` is "a queue". */
struct slice request_name(struct request *r, unsigned word, const char *what);
/* The same, but '-' is the empty word. */
struct slice request_word(struct request *r, unsigned word, const char *what);
void request_check_name(struct request *r, struct slice name, const char *what);

/* An option: a number, or `fallback` when it is not there. */
uint64_t request_uint(struct request *r, const char *name, struct number_limits limits,
		      uint64_t fallback);
/* Likewise, with a sign. */
int64_t request_int(struct request *r, const char *name, int64_t min, int64_t max,
		    int64_t fallback);
/* Milliseconds; 0 when it is not there. */
int64_t request_duration(struct request *r, const char *name,
			 struct number_limits limits);
/* One of "this, that or other": its index; 0 when it is not there. */
unsigned request_choice(struct request *r, const char *name, const char *choices);
/* The id of a message: the value of an option, or a word (`name` is NULL). */
uint64_t request_id(struct request *r, const char *name, struct slice value);
