/* stomp.h: STOMP 1.0, 1.1 and 1.2: the protocol of one connection.
 *
 * docs/stomp.md says what each frame and header does. Each subscription is a channel of
 * the session, so that an ACK can mean all messages up to one. Channel 0 has the rest.
 *
 * A channel's answers leave in the order of its requests. So what each of them is the
 * answer to (a receipt, for the most part) is in a queue beside it: `owed`. */
#pragma once

#include "base/table.h"
#include "proto/protocol.h"
#include "stomp_destination.h"
#include "stomp_frame.h"

/* What a reply is the answer to. */
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
/* Its subscription has ended: it goes, unless it holds messages. It may be freed by the
 * call. */
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
/* What a reply that leaves answers; good until the next call for the channel. */
struct stomp_owed stomp_channel_pay(struct stomp_channel *ch);
/* The answer to a frame, or to a part of what it asks for. */
struct reply *stomp_channel_reply(struct stomp *l, struct stomp_channel *ch,
				  const struct stomp_frame *f);
struct reply *stomp_channel_part(struct stomp *l, struct stomp_channel *ch,
				 const struct stomp_frame *f);
/* The reply, the channel's last, is the error of the frame: gives f->rc. */
int stomp_channel_fail(struct stomp_channel *ch, struct stomp_frame *f, struct reply *r);
/* Its session's channel was closed: it is free when it owes nothing. */
void stomp_channel_settle(struct stomp *l, struct stomp_channel *ch);

/* The one that a SEND, ACK or NACK names; NULL when it names none. Gives f->rc. */
TIDE_MUST_USE int stomp_transaction_find(struct stomp *l, struct stomp_frame *f,
					 struct session_transaction **out);
/* The receipt of a SEND in a transaction waits for its end. */
void stomp_transaction_keep(struct stomp *l, const struct stomp_frame *f);

extern const struct protocol_kind stomp_protocol;
/* Its first bytes are those of a STOMP client.
 * @return  1 yes, 0 no, TIDE_AGAIN: more must come */
int stomp_claim(const char *data, size_t len);
