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

/* Of the SENDs of a transaction that is open: their receipts come with its COMMIT. */
struct stomp_kept {
	UT_hash_handle hh;
	struct buf receipts; /* a NUL is behind each */
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

extern const struct protocol_kind stomp_protocol;
/* Its first bytes are those of a STOMP client.
 * @return  1 yes, 0 no, TIDE_AGAIN: more must come */
int stomp_claim(const char *data, size_t len);
