/* request.h: one line of the protocol, taken apart.
 *
 * Everything points into the line, whose percent-encoded values are decoded in
 * place; it is good as long as the line is. */
#ifndef TIDE_PROTO_LINE_REQUEST_H
#define TIDE_PROTO_LINE_REQUEST_H

#include "base/error.h"
#include "base/msg.h"
#include "base/slice.h"

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
	unsigned channel;
	const struct verb *verb;
	unsigned word_count;
	unsigned option_count;
	unsigned flag_count;
	unsigned header_count;
	bool is_quiet;
	uint64_t payload_len;
	struct slice tags; /* of a verb with tags: the words with the tags */
	struct slice words[REQUEST_WORDS_MAX];
	struct slice flags[REQUEST_FLAGS_MAX];
	struct request_option options[REQUEST_OPTIONS_MAX];
	struct msg_header headers[MSG_HEADERS_MAX];
};

/* Take a line apart; `line` is without its end. Verb and channel are set as
 * far as they could be read, whatever is returned. When the length of a payload
 * could not be read, which leaves the stream unreadable, `*is_lost` is set;
 * otherwise payload_len is good even with an error. */
TIDE_MUST_USE int request_parse(struct request *r, char *line, size_t len, bool *is_lost,
				struct error *err);

/* The verb of a line that is not to be taken apart yet; NULL when there is none. */
const struct verb *request_verb(struct slice line);

/* Fill `err`: the value of the option, or of a word without a name, is not what is
 * wanted. TIDE_ESYNTAX. */
int request_refuse(const char *name, struct slice value, struct error *err,
		   const char *wanted, ...) TIDE_PRINTF(4, 5);

/* The option's value; data == NULL when it is not there. */
struct slice request_option(const struct request *r, const char *name);
/* Read the option into `out`, which stays as it is when the option is not there. */
struct request_limits {
	const char *name;
	uint64_t min, max;
};
TIDE_MUST_USE int request_uint(const struct request *r, struct request_limits limits,
			       uint64_t *out, struct error *err);
TIDE_MUST_USE int request_duration(const struct request *r, struct request_limits limits,
				   int64_t *out_ms, struct error *err);
bool request_has_flag(const struct request *r, const char *name);

#endif
