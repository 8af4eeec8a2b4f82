/* stomp_frame.h: the head of a STOMP frame: its command and its headers.
 *
 * Headers that the broker knows for a command are found by their number. The rest are
 * kept in their order: of a SEND they are the headers of the message. Of a header that is
 * repeated the first counts. Slices point into the input. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/msg.h"

enum stomp_version { STOMP_1_0, STOMP_1_1, STOMP_1_2 };
const char *stomp_frame_version(enum stomp_version version); /* "1.2" */

enum stomp_verb {
	STOMP_CONNECT, /* or STOMP */
	STOMP_SEND,
	STOMP_SUBSCRIBE,
	STOMP_UNSUBSCRIBE,
	STOMP_ACK,
	STOMP_NACK,
	STOMP_BEGIN,
	STOMP_COMMIT,
	STOMP_ABORT,
	STOMP_DISCONNECT,
	STOMP_VERB_COUNT
};
const char *stomp_frame_verb(enum stomp_verb verb);

enum stomp_header {
	STOMP_H_ACCEPT_VERSION,
	STOMP_H_ACK,
	STOMP_H_ACK_TIMEOUT,
	STOMP_H_AUTO_DELETE,
	STOMP_H_CLIENT_ID,
	STOMP_H_CONTENT_LENGTH,
	STOMP_H_DELAY,
	STOMP_H_DESTINATION,
	STOMP_H_DURABLE,
	STOMP_H_EXCLUSIVE,
	STOMP_H_EXPIRATION,
	STOMP_H_FROM,
	STOMP_H_GROUP,
	STOMP_H_HEART_BEAT,
	STOMP_H_HOST,
	STOMP_H_ID,
	STOMP_H_LOGIN,
	STOMP_H_MESSAGE_ID,
	STOMP_H_MUST,
	STOMP_H_PARTITION,
	STOMP_H_PASSCODE,
	STOMP_H_PREFETCH_COUNT,
	STOMP_H_PRIORITY,
	STOMP_H_PUBLISH_ID,
	STOMP_H_REASON,
	STOMP_H_RECEIPT,
	STOMP_H_REPLY_TO,
	STOMP_H_REQUEUE,
	STOMP_H_SELECTOR,
	STOMP_H_SUBSCRIPTION,
	STOMP_H_TRANSACTION,
	STOMP_HEADER_COUNT
};

#define STOMP_SENTENCE_MAX 256

struct stomp_frame {
	enum stomp_verb verb;
	uint32_t has; /* by enum stomp_header: it was given */
	struct slice known[STOMP_HEADER_COUNT];
	unsigned count;
	struct msg_header others[MSG_HEADERS_MAX];
	/* The first error, of stomp_frame_parse or of reading a value. */
	int rc;
	struct error *err;
	bool is_told;       /* a reply has it */
	bool has_backslash; /* without one, no header has an escape */
	/* Of the error, for clients of RabbitMQ: stomp_frame_explain. */
	const char *word;
	struct slice sentence; /* in `theirs`; data == NULL: none */
	char theirs[STOMP_SENTENCE_MAX];
};

/* How long the head is, with the empty line behind it; 0: more must come; SIZE_MAX: a NUL
 * is in it.
 *
 * @param scanned  0 for a new frame; notes how far it has looked */
size_t stomp_frame_find_end(const char *data, size_t len, size_t *scanned);
bool stomp_frame_is_send(struct slice head);
/* Does the head give the length of the body? */
bool stomp_frame_has_length(struct slice head, enum stomp_version version);
/* As a header of this version holds it: 1.0 has no escapes. */
void stomp_frame_escape(struct buf *out, struct slice value, enum stomp_version version);
/* The escape of a byte in a header; NULL: the byte stands for itself. */
const char *stomp_frame_escape_of(unsigned char c, enum stomp_version version);
/* Take a head apart, in place. The verb is set if it can be read, even with an error. */
TIDE_MUST_USE int stomp_frame_parse(struct stomp_frame *f, char *head, size_t len,
				    enum stomp_version version, struct error *err);

/* The value; data == NULL when it was not given. */
static inline struct slice stomp_frame_header(const struct stomp_frame *f,
					      enum stomp_header header)
{
	return f->has & 1u << header ? f->known[header] : (struct slice){ NULL, 0 };
}
/* Likewise of one that the broker does not know for this command. */
struct slice stomp_frame_other(const struct stomp_frame *f, const char *name);

/* Give RabbitMQ's words for the error of the frame: its word, a literal, and its
 * sentence, byte for byte; NULL: ours is as good. The first words stay. Gives f->rc. */
int stomp_frame_explain(struct stomp_frame *f, const char *word, const char *sentence,
			...) TIDE_PRINTF(3, 4);

/* Readers of values follow. The first that is wrong is in f->rc and f->err from then
 * on. The last parameter is for a header that was not given. */
void stomp_frame_refuse(struct stomp_frame *f, enum stomp_header header,
			const char *expected, ...) TIDE_PRINTF(3, 4);
/* One that must be given, and not be empty. */
struct slice stomp_frame_need(struct stomp_frame *f, enum stomp_header header);
uint64_t stomp_frame_uint(struct stomp_frame *f, enum stomp_header header,
			  struct number_limits limits, uint64_t fallback);
/* Milliseconds, or "30s". */
int64_t stomp_frame_duration(struct stomp_frame *f, enum stomp_header header,
			     struct number_limits limits);
/* True or false, in any case; false: neither. */
bool stomp_frame_read_flag(struct slice value, bool *flag);
bool stomp_frame_flag(struct stomp_frame *f, enum stomp_header header, bool fallback);
