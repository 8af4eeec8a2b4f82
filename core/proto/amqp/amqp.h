/* amqp.h: AMQP 0-9-1, as RabbitMQ speaks it: the protocol of one connection.
 *
 * docs/amqp.md says what works. A channel of AMQP is a channel of the session with the
 * same number; channel 0 is the connection's. The answers of a channel leave in the order
 * of its requests, and `owed` has what each of them is the answer to. */
#pragma once

#include "amqp_codec.h"
#include "proto/protocol.h"

#include <sys/queue.h>

#define AMQP_FRAME_MAX 131072
#define AMQP_FRAME_MIN 4096
/* Of a frame: type, channel and size before it, the end behind it. */
#define AMQP_FRAME_HEAD 7
#define AMQP_FRAME_END 0xce
#define AMQP_CHANNELS_MAX 2047
#define AMQP_HEARTBEAT_S 60
/* Without basic.qos: as many as a basic.qos can ask for. */
#define AMQP_PREFETCH_MAX 65535
/* RabbitMQ's lease, for a queue that has none of its own. */
#define AMQP_LEASE_MS (30 * 60 * 1000)

/* Keys of CC and BCC: each is one more route of a publish. */
#define AMQP_COPIES_MAX 64

/* Direct reply-to: who consumes from it gets the answers to what its channel publishes.
 */
#define AMQP_REPLY_TO "amq.rabbitmq.reply-to"

enum amqp_frame {
	AMQP_FRAME_METHOD = 1,
	AMQP_FRAME_HEADER = 2,
	AMQP_FRAME_BODY = 3,
	AMQP_FRAME_HEARTBEAT = 8,
};

enum amqp_owed_kind {
	AMQP_OWED_ANSWER, /* the method behind that of the request */
	AMQP_OWED_QUIET,  /* only an error is told */
	AMQP_OWED_NOTHING,
	AMQP_OWED_PUBLISH,
	AMQP_OWED_GET,
};

struct amqp_owed {
	enum amqp_owed_kind kind;
	enum amqp_method request;
	uint64_t n;      /* of a publish: its number, 0 without confirms; else a count */
	struct msg *msg; /* of a mandatory publish: a reference; or NULL */
	char *text;      /* the name of a queue or a consumer; owned, or NULL */
};

/* The content that follows a basic.publish. */
enum amqp_content {
	AMQP_NO_CONTENT,
	AMQP_CONTENT_HEADER,
	AMQP_CONTENT_BODY,
};

struct amqp_tag {
	struct amqp_tag *next;
	size_t len;
	char text[];
};

struct amqp_channel {
	struct amqp *l;
	unsigned number;
	struct amqp_owed *owed; /* a ring */
	size_t owed_first, owed_count, owed_cap;
	bool is_open;
	bool is_closing; /* channel.close was sent, and its ok has not come */
	bool is_ending;  /* the session has its channel still; in the list: */
	TAILQ_ENTRY(amqp_channel) ending_link;
	bool is_confirm, is_tx;
	uint64_t last_tag;  /* the last one that was given out */
	uint64_t published; /* publishes with confirms */
	/* Of them, those that basic.ack is to tell when the output is sent: the last one
	 * and how many; 0: none. */
	uint64_t acked, acked_count;
	TAILQ_ENTRY(amqp_channel) acking_link;
	uint32_t prefetch;      /* of each new consumer */
	struct amqp_tag *tags;  /* of its consumers */
	uint64_t last_consumer; /* that the broker has named */
	char *last_queue;       /* that was declared: what an empty name means */
	char *reply_queue;      /* what AMQP_REPLY_TO stands for here; NULL: nothing */
	/* The publish under way. */
	enum amqp_content content;
	bool is_mandatory;
	uint8_t exchange_len, key_len;
	char exchange[255], key[255];
	struct buf keys; /* of the headers CC and BCC, each with its length before it */
	struct msg *msg; /* NULL: it was refused, and its body is skipped */
	struct error refused;
	uint64_t body_left;
};

enum amqp_state {
	AMQP_PROTOCOL, /* its header has not come */
	AMQP_START,
	AMQP_LOGIN, /* it is being decided */
	AMQP_TUNE,
	AMQP_OPEN,  /* connection.open may come */
	AMQP_READY, /* it has */
	AMQP_CLOSED /* nothing more is read */
};

struct amqp {
	struct protocol base;
	enum amqp_state state;
	bool is_heavy;
	bool is_told_blocked, is_told_cancelled; /* the client wants to know */
	bool is_leaving;                         /* the end comes when all is answered: */
	bool has_error; /* because of this, and not of the client */
	bool is_body;   /* the rest of a body frame follows */
	char *user;     /* as it says; NULL: none */
	char *leaving;  /* why */
	uint32_t frame_max;
	unsigned channel_max;
	struct amqp_channel zero;
	struct amqp_channel **channels; /* by their number; NULL: none */
	unsigned channel_cap;
	unsigned contents; /* publishes whose body is coming */
	size_t missing;    /* of these bodies */
	TAILQ_HEAD(, amqp_channel) acking, ending;
	/* The frame that is read; of a body what is left of it. */
	enum amqp_frame type;
	unsigned channel;
	uint32_t frame_left;
	struct buf partial;    /* a long frame, until it is whole */
	struct buf properties; /* of a delivery */
	struct buf table;      /* the headers of a publish, where they change */
};

/* A request, and the channel that it came on. */
struct amqp_request {
	struct amqp *l;
	struct amqp_channel *channel;
	struct channel *session; /* that of the session */
	enum amqp_method method;
	const struct amqp_value *v;
};

/* ---- what is owed ---- */

/* The next reply of the channel answers this. */
struct reply *amqp_owe(struct amqp_channel *ch, const struct amqp_owed *owed);
/* The reply of a request: its answer, or with no-wait none. The text is copied. */
struct reply *amqp_answer(const struct amqp_request *q, bool is_quiet, struct slice text,
			  uint64_t n);
/* Answer at once what the session need not be asked for. */
void amqp_answer_ok(const struct amqp_request *q, bool is_quiet, struct slice text,
		    uint64_t n);

/* ---- what the broker says ---- */

void amqp_send(struct amqp *l, unsigned channel, enum amqp_method method,
	       const struct amqp_value *values);
/* The error ends the channel or the connection, as its code says.
 *
 * @param ch  NULL: it is the connection's */
void amqp_fail(struct amqp *l, struct amqp_channel *ch, enum amqp_method request,
	       enum amqp_code code, const char *format, ...) TIDE_PRINTF(5, 6);
/* The same of an error of the session. */
void amqp_fail_with(const struct amqp_request *q, const struct error *err);
enum amqp_code amqp_code_of(int error);
/* The client has asked for the end of the connection, or the broker wants it: when all is
 * answered. */
void amqp_leave(struct amqp *l);
/* Write the confirms that were held back. */
void amqp_flush(struct protocol *p);
extern const struct session_ops amqp_reply_ops;

/* ---- the requests ---- */

/* The channel is no longer open, and what it owes is not told. Not within a reply. */
void amqp_channel_end(struct amqp_channel *ch);
void amqp_exchange_request(const struct amqp_request *q);
void amqp_queue_request(const struct amqp_request *q);
void amqp_basic_request(const struct amqp_request *q);
void amqp_tx_request(const struct amqp_request *q);
/* The name of a queue, if it is not empty; or the last one that was declared. False: an
 * error is told. */
bool amqp_queue_name(const struct amqp_request *q, unsigned field, struct slice *name);
/* The content header of a publish. */
void amqp_basic_header(const struct amqp_request *q, uint64_t body_len,
		       struct slice properties);
/* Its body is whole. */
void amqp_basic_publish(struct amqp_channel *ch);
void amqp_basic_forget_tag(struct amqp_channel *ch, struct slice tag);

extern const struct protocol_kind amqp_protocol;
/* Are its first bytes those of an AMQP client? As stomp_claim. */
int amqp_claim(const char *data, size_t len);
/* A connection.close, for who is refused before anything is read. */
void amqp_answer_whole(struct out *out, const char *why);
