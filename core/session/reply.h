/* reply.h: the answer to one request, kept in its channel's order.
 *
 * A request gets its reply object at once; the reply is finished now or later
 * (a publish when it is durable, an ack when Redis has forgotten the message).
 * Finished replies leave in the order of the requests of their channel, so one
 * that is ready early waits behind an earlier one. A reply whose channel is
 * gone completes unseen. */
#pragma once

#include "base/json.h"
#include "base/msg.h"
#include "base/waiter.h"

#include <sys/queue.h>

enum reply_kind {
	REPLY_OK,        /* OK */
	REPLY_COUNT,     /* OK <count> */
	REPLY_COUNTS,    /* OK <count> <second> */
	REPLY_PUBLISHED, /* OK <id> <count> [duplicate] [<partition>:<offset>] */
	REPLY_MESSAGES,  /* OK <count>, then the messages */
	REPLY_DATA,      /* a document */
	REPLY_TEXT,      /* OK <text> */
	REPLY_ERROR,
};

/* A message handed out. */
struct delivery {
	struct msg *msg; /* in the reply to a GET: a reference of its own */
	/* The headers of this delivery alone, in a message without a payload;
	 * likewise. NULL: those of `msg`. */
	struct msg *head;
	uint64_t tag; /* 0 = no acknowledgement is wanted */
	uint32_t attempt;
	bool is_redelivered; /* somebody may have seen it before */
	bool has_offset;     /* of a topic: it lies there */
	uint16_t partition;
	uint64_t offset;
};

/* Whose headers it is delivered with. */
static inline const struct msg *reply_head(const struct delivery *d)
{
	return __builtin_expect(d->head != NULL, 0) ? d->head : d->msg;
}

/* The message is kept for the delivery alone: that of a queue which is held counts there.
 */
static inline bool reply_is_alone(const struct delivery *d)
{
	return d->tag == 0 || d->has_offset;
}

struct channel;
struct service;
struct subscription;

struct reply {
	STAILQ_ENTRY(reply) link;
	struct channel *channel; /* NULL when it is gone */
	struct waiter waiter;
	uint8_t kind; /* enum reply_kind */
	bool is_quiet;
	bool is_document; /* counted in the session */
	bool is_written;  /* a document is being written into it: likewise */
	bool is_kept;     /* it has its answer, and waits for an earlier one: likewise */
	bool is_done;
	bool is_duplicate; /* for REPLY_PUBLISHED, as has_offset and the next */
	bool has_offset;   /* it is in a topic, there */
	uint16_t partition;
	uint32_t topics; /* of `count` */
	int error;       /* for REPLY_ERROR */
	uint64_t id;     /* for REPLY_COUNTS: the second one */
	uint64_t count;
	uint64_t offset;                   /* for REPLY_PUBLISHED */
	char *text;                        /* for REPLY_ERROR, REPLY_TEXT; owned */
	struct buf data;                   /* for REPLY_DATA */
	struct subscription *subscription; /* of a SUB: it waits for this reply */
	struct delivery *deliveries; /* for REPLY_MESSAGES; `count` of them; owned */
	struct service *service;     /* whose pool it goes back to */
};

STAILQ_HEAD(reply_list, reply);

/* A reply that is in no order: who asked gets it himself. It is freed after the call. */
typedef void reply_aside_fn(void *ctx, struct reply *r);
struct reply_aside {
	struct reply reply;
	TAILQ_ENTRY(reply_aside) link; /* of its channel */
	reply_aside_fn *on_done;
	void (*on_hurry)(void *ctx); /* session_end_waits; may be NULL */
	void *ctx;
};
TAILQ_HEAD(reply_aside_list, reply_aside);

/* A reply at the end of the channel's order. It is freed when it has left. */
struct reply *reply_create(struct channel *ch, bool is_quiet);
/* A reply to a request of the channel that waits for none of the others, and none for it.
 * on_done comes once, perhaps within the command. When the channel goes before, it comes
 * with an error, and the reply completes unseen later. */
struct reply *reply_create_aside(struct channel *ch, reply_aside_fn *on_done, void *ctx);
/* A reply that waits learns when the peer has ended its side. */
void reply_aside_watch(struct reply *r, void (*on_hurry)(void *ctx));
/* The channel goes: its replies will not be sent. Those not finished complete unseen. */
void reply_drop_all(struct channel *ch);
/* The answer may be large: a session has few such replies at a time. */
void reply_expect_document(struct reply *r);

void reply_ok(struct reply *r);
/* Words of the protocol, then whatever stands at the end of the line. */
void reply_text(struct reply *r, const char *text);
void reply_count(struct reply *r, uint64_t count);
void reply_counts(struct reply *r, uint64_t count, uint64_t second);
/* Write a document into the reply, then finish it by reply_data, or by reply_error. A
 * large one is refused if answers that clients do not read leave no room for it. */
void reply_json(struct reply *r, struct json *out);
void reply_data(struct reply *r);
/* The same for a document that ends where there is no room for more. */
void reply_data_bounded(struct reply *r);
/* The document is taken; `data` is empty afterwards. */
void reply_data_take(struct reply *r, struct buf *data);
void reply_error(struct reply *r, const struct error *err);
/* The messages are taken. */
void reply_messages_take(struct reply *r, struct delivery *deliveries, uint64_t count);

/* For commands that wait: set the kind and what it carries, add to the waiter
 * what it waits for, then end with reply_when_done. A failure of the waiter
 * makes it a REPLY_ERROR. */
void reply_when_done(struct reply *r);
