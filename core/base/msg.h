/* msg.h: a message, as it was published.
 *
 * One allocation holds the struct, its strings, its headers and its payload. Nothing in
 * it changes after publication: queues, consumers and batches share it by counting
 * references. The queue keeps what differs from queue to queue (rank, state, attempts).
 * Not thread safe. */
#pragma once

#include <stdint.h>

#include "error.h"
#include "json.h"
#include "slice.h"

#define MSG_HEADERS_MAX 64 /* of a publish */
/* With those that dead-lettering adds, whose names begin with the prefix. Only the broker
 * sets them: rules trust them. */
#define MSG_HEADERS_ALL (MSG_HEADERS_MAX + 17)
#define MSG_DEATH_PREFIX "x-death-"
/* The last word of a consumer that gave the message back (NACK reason=). The message
 * has it from then on, whether it dies or not. */
#define MSG_REASON_TEXT SLICE(MSG_DEATH_PREFIX "reason-text")
/* The properties of a message that came by AMQP, byte for byte. Only AMQP shows it. */
#define MSG_AMQP_HEADER SLICE("amqp-0-9-1")
#define MSG_REASON_TEXT_MAX 256 /* what is longer is cut */
#define MSG_PRIORITY_MAX 255
#define MSG_DEDUPE_ID_MAX 128
#define MSG_USER_MAX 255
#define MSG_ACK_TIMEOUT_MIN_MS 10
#define MSG_ACK_TIMEOUT_MAX_MS (24 * 3600 * 1000)

struct msg_header {
	struct slice name;
	struct slice value; /* decoded; any bytes */
};

/* Free lists for the memory of small messages, by size. Each message is made and dropped
 * once, in an order for which malloc has no short way. */
#define MSG_POOL_STEP 64                      /* sizes are multiples of this */
#define MSG_POOL_BLOCK_MAX 1024               /* larger ones are malloc's */
#define MSG_POOL_KEEP_BYTES ((size_t)1 << 20) /* of free blocks, of all sizes */

struct msg_pool {
	/* By the size in steps. All NULL at first. */
	struct msg_block *free_lists[MSG_POOL_BLOCK_MAX / MSG_POOL_STEP + 1];
	size_t kept_bytes;
};

/* Frees the free blocks; no message may use it any more. */
void msg_pool_deinit(struct msg_pool *p);

struct msg {
	uint32_t refs;
	uint8_t priority; /* higher is more urgent */
	uint8_t header_count;
	uint8_t dedupe_len;      /* of dedupe_id; 0 = it has none */
	uint8_t user_len;        /* of user; 0 = no user */
	uint32_t ack_timeout_ms; /* its lease, as the publisher wants it; 0: as others do
				  */
	bool is_transient;       /* it may be lost with the process: queue_shard_of */
	uint64_t id;
	int64_t ts_unix_ms;      /* when it was published */
	int64_t due_unix_ms;     /* not to be delivered before; 0 = at once */
	int64_t expires_unix_ms; /* not to be delivered after; 0 = never */
	struct slice exchange;   /* empty = the default exchange */
	struct slice key;
	const struct msg_header *headers; /* inside the allocation, like all below */
	const char *payload;
	size_t payload_len;
	size_t bytes;          /* size of the whole allocation: what a window accounts */
	struct msg_pool *pool; /* of its memory, which outlives it; NULL: malloc */
	/* The publisher's own id for it, which is not kept with it: see msg_dedupe_id. */
	const char *dedupe_id;
	const char *user; /* who has published it; not kept either: see msg_user */
};

/* A copy of `like`, whatever its refs and bytes, with one reference. NULL: out of memory.
 * Without a payload in `like`, fill msg_payload_room before publishing. */
struct msg *msg_create(const struct msg *like);

static inline char *msg_payload_room(struct msg *m)
{
	return (char *)m->payload;
}

/* The member "headers". */
void msg_write_headers(const struct msg *m, struct json *out);

static inline struct msg *msg_ref(struct msg *m)
{
	m->refs++;
	return m;
}

/* For msg_unref, when the last reference is gone. */
void msg_free(struct msg *m);

/* Accepts NULL. */
static inline void msg_unref(struct msg *m)
{
	if (m && --m->refs == 0)
		msg_free(m);
}

/* The publisher's id of the message, by which a second publish of it is known; empty
 * when it has no such id. A message that comes back from the store has none: seen ids
 * are remembered beside the messages. */
static inline struct slice msg_dedupe_id(const struct msg *m)
{
	return (struct slice){ m->dedupe_id, m->dedupe_len };
}

/* The author of the publish, for scripts that decide about it; empty for messages of
 * the broker itself, and for those that come back from the store. */
static inline struct slice msg_user(const struct msg *m)
{
	return (struct slice){ m->user, m->user_len };
}

/* As clients name it: "-" is the default exchange. */
static inline struct slice msg_exchange_word(const struct msg *m)
{
	return m->exchange.len ? m->exchange : SLICE("-");
}

/* A word that PUB refuses is corrupt in a body, and in a record: a reply line and the
 * room for two names depend on it. */
static inline bool msg_is_word(struct slice s)
{
	return s.len == 0 || slice_is_name(s);
}

static inline bool msg_is_header_name(struct slice s)
{
	return slice_is_name(s) && !memchr(s.data, '=', s.len);
}

/* The header's value; a slice with data == NULL when there is none. */
struct slice msg_header(const struct msg *m, struct slice name);

/* As much of it as is kept; of UTF-8 no part of a character. */
struct slice msg_cut_reason(struct slice text);
/* The headers of `m`, with that text of a consumer if there is room. Gives how many they
 * are. `out` may be the array that `m` has them in. */
unsigned msg_headers_with_reason(const struct msg *m, struct slice text,
				 struct msg_header out[MSG_HEADERS_ALL]);

/* Is the header the broker's own? Dead-lettering alone sets it. */
static inline bool msg_header_is_death(struct slice name)
{
	return slice_has_prefix(name, MSG_DEATH_PREFIX);
}

/* The header is for one protocol alone. */
static inline bool msg_header_is_hidden(struct slice name)
{
	return slice_is_equal(name, MSG_AMQP_HEADER);
}

/* The messages that a request means, as its option `match=` says.
 *
 *   <text>            bytes of the payload, or of a header's value
 *   text:<text>       the same, for a text that begins like one of those below
 *   key:<pattern>     the routing key, as a topic pattern
 *   h:<name>          a header of this name
 *   h:<name>=<value>  a header with exactly this value
 *   h:<name>~<glob>   a header with a value like this, in which a * is any text
 *   lua:<expression>  made by rules/api/match_script.h, which bounds its time
 *
 * A match takes time that is linear in the message, or (words of the pattern) x (words
 * of the key). */
enum msg_match_kind {
	MSG_MATCH_ALL,
	MSG_MATCH_TEXT,
	MSG_MATCH_KEY,
	MSG_MATCH_HEADER,
	MSG_MATCH_GLOB, /* of the value of a header */
	MSG_MATCH_SCRIPT,
};

/* A function that decides, and may fail. */
struct msg_match_script {
	bool (*has)(struct msg_match_script *s, const struct msg *m, uint32_t attempt);
	void (*destroy)(struct msg_match_script *s);
	struct error err;  /* its failure; it matches nothing from then on */
	uint64_t spent_ns; /* in the turn of: */
	int64_t turn_ms;
};
/* What a search that is not cut into turns spends on functions in one of them. */
#define MSG_MATCH_TURN_NS 5000000

struct msg_match {
	enum msg_match_kind kind;
	char *owned;
	struct slice text;               /* the text, the pattern, or the name */
	struct slice value;              /* of a header, or its glob; data == NULL: any */
	struct msg_match_script *script; /* owned; NULL for the other kinds */
};

/* Copies `option`; without one (data == NULL) all messages match. */
TIDE_MUST_USE int msg_match_init(struct msg_match *match, struct slice option,
				 struct error *err);
void msg_match_deinit(struct msg_match *match);
/* @param attempt  the number of its try that is under way, or comes next; 0: it has none
 */
bool msg_match_has(const struct msg_match *match, const struct msg *m, uint32_t attempt);
/* Why it matches nothing any more; NULL: it does. Ask after each msg_match_has that says
 * no, before that is taken for an answer. */
static inline const struct error *msg_match_error(const struct msg_match *match)
{
	return match->script && match->script->err.code < 0 ? &match->script->err : NULL;
}
/* Has it had its time in this turn, or failed? Only functions have a time.
 *
 * @param now_ms  another one in each turn that takes long */
bool msg_match_is_spent(const struct msg_match *match, int64_t now_ms);
