/* stomp.h: STOMP 1.0, 1.1 and 1.2: the protocol of one connection.
 *
 * docs/stomp.md says what each frame and header does. Each subscription is a channel of
 * the session, so that an ACK can mean all messages up to one. Channel 0 has the rest.
 *
 * A channel's answers leave in the order of its requests. So what each of them is the
 * answer to (a receipt, for the most part) is in a queue beside it: `owed`. */
#pragma once

#include "base/args.h"
#include "base/duration.h"
#include "base/table.h"
#include "proto/protocol.h"
#include "stomp_frame.h"

/* The frame that a reply answers. */
struct stomp_owed {
	enum stomp_verb verb;
	bool is_part; /* of a request: it is told only if it fails */
	bool is_kept; /* until COMMIT, and so is its receipt */
	struct slice receipt;
	/* If it is an error: stomp_frame_explain. */
	const char *word;
	struct slice sentence;
	struct slice kept; /* of a COMMIT: receipts before its own, a NUL behind each */
};

#define STOMP_PREFETCH_DEFAULT 1000
#define STOMP_PREFETCH_MAX 65535

enum stomp_state {
	STOMP_FRAME, /* the head of one, or what is between two */
	STOMP_BODY,  /* of base.msg, whose length is known; then the NUL */
	STOMP_TEXT,  /* a body that ends with the first NUL */
	STOMP_CLOSED /* nothing more is read */
};

/* A channel of the session. */
struct stomp_channel {
	unsigned number;
	struct buf owed; /* records of answers, in the order of the replies */
	size_t last_owed_len;
	/* Of all but channel 0: the subscription. */
	struct slice id;         /* owned; of 1.0 it may be the destination */
	struct buf subscription; /* the line "subscription:<id>" of its messages */
	uint64_t serial;         /* no other subscription of the connection has it */
	struct buf origin; /* between id and tag of an ack: "-<session>-<serial>-" */
	struct slice destination; /* owned */
	char *queue;              /* that it reads */
	bool is_auto;
	bool is_cumulative; /* an ACK is for all messages up to its own */
	bool is_ended;      /* UNSUBSCRIBE has come; what it holds can be settled */
	bool is_closing;    /* it waits for its last answers */
};

/* Where a SEND goes to, and where a SUBSCRIBE reads from: /queue/<name>,
 * /exchange/<name>/<key>, … In a name a '/' is written %2F. */
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

/* A queue of this connection alone, by the name that its client gave it. */
struct stomp_temp {
	UT_hash_handle hh;
	char *queue;
	char name[];
};

struct stomp {
	struct protocol base;
	uint8_t state;   /* enum stomp_state */
	uint8_t version; /* enum stomp_version, once it is connected */
	bool has_connected;
	bool is_heavy;  /* the frame that was run last was no light one */
	size_t scanned; /* of the head that has not come whole */
	struct stomp_channel **channels; /* by their number; NULL: free */
	unsigned channel_cap;
	uint64_t last_serial;
	struct stomp_temp *temps; /* uthash */
	struct stomp_kept *kept;  /* likewise */
	char *client_id;          /* of CONNECT, or NULL */
	char *login;              /* likewise, while it is being checked */
	/* The SEND whose body is being read. */
	struct publish_demand demand;
	struct buf head, body; /* of a body whose length is not known */
	/* Where the last SEND went to: it is known to be there for as long as the
	 * session's version is the same. */
	struct buf last_text;
	struct stomp_destination last;
	uint64_t last_version;
	char *last_room;    /* of `last`; NULL before the first SEND */
	struct buf leaving; /* the receipt of DISCONNECT; or why the connection ends */
	const char *leaving_word; /* with why it ends: RabbitMQ's word */
	bool is_leaving, has_error;
};

/* Of the SENDs of a transaction that is open: their receipts come with its COMMIT. */
struct stomp_kept {
	UT_hash_handle hh;
	struct buf receipts; /* a NUL is behind each */
	char name[];
};

/* One that is free, with its channel of the session open. Gives f->rc. */
TIDE_MUST_USE int stomp_channel_open(struct stomp *l, struct stomp_frame *f,
				     struct stomp_channel **out);
/* The subscription of that id, or NULL. */
struct stomp_channel *stomp_channel_find(struct stomp *l, struct slice id);
/* The subscription has ended: the channel goes, unless it holds messages. It may be
 * freed by the call. */
void stomp_channel_release(struct stomp *l, struct stomp_channel *ch,
			   const struct stomp_frame *f);
static inline struct stomp_channel *stomp_channel_zero(const struct stomp *l)
{
	return l->channels[0];
}
static inline struct channel *stomp_channel_session(const struct stomp *l,
						    const struct stomp_channel *ch)
{
	return session_channel(l->base.session, ch->number);
}

/* The next reply of the channel that is created answers this. */
void stomp_channel_owe(struct stomp_channel *ch, const struct stomp_owed *owed);
/* The reply that was created last is an error: RabbitMQ's words for it. */
void stomp_channel_explain(struct stomp_channel *ch, const char *word,
			   struct slice sentence);
/* The frame that a leaving reply answers; good until the next call for the channel. */
struct stomp_owed stomp_channel_pay(struct stomp_channel *ch);
/* The answer to a frame, or to a part of the request: a part is told only if it fails. */
struct reply *stomp_channel_reply(struct stomp *l, struct stomp_channel *ch,
				  const struct stomp_frame *f, bool is_part);
/* The reply, the channel's last, is the error of the frame: gives f->rc. */
int stomp_channel_fail(struct stomp_channel *ch, struct stomp_frame *f, struct reply *r);
/* The session's channel was closed: this one is free when it owes no reply. */
void stomp_channel_settle(struct stomp *l, struct stomp_channel *ch);

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

/* A queue with these options, or if there are none, with any. */
int stomp_destination_ensure_queue(struct stomp *l, struct stomp_channel *ch,
				   struct stomp_frame *f, struct slice name,
				   const struct stomp_options *options);
int stomp_subscribe(struct stomp *l, struct stomp_frame *f);
int stomp_subscribe_end(struct stomp *l, struct stomp_frame *f);

/* The queue of this connection behind /temp-queue/<name>, and a subscription to it whose
 * id is that destination. */
TIDE_MUST_USE int stomp_subscribe_temp(struct stomp *l, struct stomp_frame *f,
				       struct slice destination, struct slice *queue);
/* The connection ends. */
void stomp_subscribe_deinit(struct stomp *l);

/* ---- what the broker says: CONNECTED, MESSAGE, RECEIPT and ERROR ---- */

extern const struct session_ops stomp_reply_ops;

/* Refuse a frame that has no reply yet: ERROR, after the answers that channel 0 owes. No
 * further frame is read. @param f  NULL: what came is no frame */
void stomp_reply_error(struct stomp *l, const struct stomp_frame *f,
		       const struct error *err);
/* ERROR now, and the end. @param words  "<code> <text>" */
void stomp_reply_closed(struct stomp *l, const char *words);
/* When all is answered, say the last thing, if there is one. */
void stomp_reply_leave(struct stomp *l);

extern const struct protocol_kind stomp_protocol;
/* Are its first bytes those of a STOMP client?
 *
 * @return  1 yes, 0 no, TIDE_AGAIN: more must come */
int stomp_claim(const char *data, size_t len);
/* Is the `host` of CONNECT the address of the broker, and no vhost? */
bool stomp_host_is_address(struct slice host);
/* A whole ERROR frame, for who is refused before a frame is read. */
void stomp_answer_whole(struct out *out, const char *code, const char *why);
