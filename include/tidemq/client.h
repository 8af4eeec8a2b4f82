/* tidemq/client.h: a client of the tidemq message broker, in C.
 *
 * One client is one connection. It is used in one of two ways:
 *
 * Blocking: tidemq_connect gives a client with an event loop of its own, and
 * each call returns when the broker has answered. Nothing happens between the
 * calls: no thread, no signal handler.
 *
 *     struct tidemq_error err;
 *     struct tidemq_client *c = tidemq_connect("tide://127.0.0.1/", NULL, &err);
 *     if (!c)
 *         die(err.text);
 *     struct tidemq_publication p = { .key = "jobs", .payload = "hi", .payload_len = 2 };
 *     if (tidemq_publish(c, &p, NULL) != TIDEMQ_OK)
 *         die(tidemq_last_error(c)->text);
 *     tidemq_disconnect(c);
 *
 * Asynchronous: tidemq_start puts a client on a libuv loop of yours; requests
 * are sent with tidemq_send and tidemq_send_publication, and everything that
 * arrives is a callback from that loop. See the second half of this file.
 *
 * Errors are numbers below zero, of enum tidemq_status; 0 is success. A
 * request that the broker refused is TIDEMQ_EREFUSED, with the protocol's
 * error code and sentence in struct tidemq_error. An error that ends the
 * connection (TIDEMQ_ECLOSED, TIDEMQ_EPROTOCOL, TIDEMQ_ETIMEDOUT while waiting
 * for a reply) leaves a client that can only be closed; there is no reconnect.
 *
 * Texts that go in are zero-terminated UTF-8 and copied. Pointers that come
 * out say how long they are good. Times are milliseconds. Nothing is global:
 * clients do not know of each other, and each may be used by one thread at a
 * time. Like every program on libuv, ignore SIGPIPE.
 *
 * The protocol, with every verb, option and error code: docs/protocol.md. */
#ifndef TIDEMQ_CLIENT_H
#define TIDEMQ_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uv_loop_s; /* uv_loop_t */
struct tidemq_client;

enum tidemq_status {
	TIDEMQ_OK = 0,
	TIDEMQ_ECONNECT = -1,   /* the broker could not be reached */
	TIDEMQ_ETIMEDOUT = -2,  /* it did not answer in time */
	TIDEMQ_ECLOSED = -3,    /* the connection has ended */
	TIDEMQ_EPROTOCOL = -4,  /* the other side does not speak the protocol */
	TIDEMQ_EINVAL = -5,     /* an argument of the call is wrong; nothing was sent */
	TIDEMQ_ENOMEM = -6,     /* no memory for a payload; nothing was sent */
	TIDEMQ_EREFUSED = -7,   /* the broker answered ERR */
	TIDEMQ_EBUSY = -8,      /* the window is full; wait for a reply first */
	TIDEMQ_ECANCELLED = -9, /* the broker ended a subscription */
};

/* A few words for a status, in static storage. */
const char *tidemq_status_text(int status);

#define TIDEMQ_WORD_MAX 32
#define TIDEMQ_TEXT_MAX 512

struct tidemq_error {
	int status;
	/* The code of the broker's ERR, "not-found"; empty for other errors. */
	char word[TIDEMQ_WORD_MAX];
	/* A sentence for a person, without line break and final full stop. */
	char text[TIDEMQ_TEXT_MAX];
};

/* All zero gives the defaults. */
struct tidemq_options {
	const char *name;           /* what LIST connections shows for this client */
	int64_t connect_timeout_ms; /* to the broker's first answer; default 5000 */
	int64_t request_timeout_ms; /* blocking calls wait so long for a reply;
				     * default 30000, negative = for ever */
	int64_t heartbeat_ms;       /* 1000 to 3600000; default 0 = none. A blocking
				     * client sends none between its calls */
	unsigned window;            /* unanswered requests at most; default 1000 */
	size_t payload_max_bytes;   /* of what the broker sends; default 256 MiB */
};

/* A header's name is a text, its value any bytes. */
struct tidemq_header {
	const char *name;
	const char *value;
	size_t value_len;
};

struct tidemq_publication {
	const char *exchange; /* NULL or "" is the default exchange */
	const char *key;      /* NULL or "" is the empty key */
	const void *payload;
	size_t payload_len;
	const struct tidemq_header *headers;
	size_t header_count;
	unsigned priority; /* 0 to 255, higher is more urgent */
	int64_t delay_ms;  /* not delivered before; 0 = at once */
	int64_t ttl_ms;    /* not delivered later; 0 = no end */
	bool must;         /* refuse it (unroutable) when no queue takes it */
	/* Your own id for it, 1 to 128 bytes; NULL = none. A second publication with the
	 * same id is not stored by a queue that has seen the first: send it again when
	 * you do not know whether it arrived. */
	const char *dedupe_id;
};

/* What a confirmed publication got. */
struct tidemq_receipt {
	char id[17]; /* 16 hex digits */
	unsigned queues;
	bool is_duplicate; /* they had it before, and the id is that of the first */
};

/* A message from the broker. One allocation holds all of it. */
struct tidemq_msg {
	const char *sid; /* the subscription; "-" for tidemq_get */
	unsigned channel;
	uint64_t tag;         /* what it is acknowledged by; 0 = no ack is expected */
	unsigned attempt;     /* 1 at the first delivery */
	const char *exchange; /* "" is the default exchange */
	const char *key;
	char id[17];
	int64_t ts_unix_ms; /* when it was published */
	unsigned priority;
	bool redelivered; /* a consumer may have seen it before */
	const struct tidemq_header *headers;
	size_t header_count;
	const char *payload; /* a zero follows it, which does not count */
	size_t payload_len;
};

/* The value of a header, zero-terminated, or NULL when there is none. */
const char *tidemq_msg_header(const struct tidemq_msg *m, const char *name);

/* What the broker answered. */
struct tidemq_reply {
	int status;       /* TIDEMQ_OK or an error */
	const char *word; /* the code of an ERR; "" otherwise */
	/* TIDEMQ_OK: the words behind OK, or the document of DATA. An error: its
	 * sentence. A zero follows, which does not count. */
	const char *text;
	size_t len;
	bool is_document; /* the text is a DATA document: JSON */
};

/* ---- blocking ------------------------------------------------------------ */

/* Connect to tide://[user:pass@]host[:port]/vhost or
 * tide+unix:/path/of/socket[?vhost=name], and exchange HELLO.
 *
 * Port 7310 and vhost / are the defaults; user, pass and vhost may be
 * percent-encoded; an IPv6 address stands in brackets.
 *
 * @param options  NULL for the defaults
 * @param err      NULL or receives why there is no client
 * @return         a client for tidemq_disconnect, or NULL */
struct tidemq_client *tidemq_connect(const char *url,
				     const struct tidemq_options *options,
				     struct tidemq_error *err);

/* Close and free. What was not confirmed may be lost; what was not
 * acknowledged goes back to its queue. Accepts NULL. */
void tidemq_disconnect(struct tidemq_client *c);

/* Why the last call on this client failed; good until the next call. */
const struct tidemq_error *tidemq_last_error(const struct tidemq_client *c);

/* The broker's HELLO document (JSON); good as long as the client. */
const char *tidemq_server_info(const struct tidemq_client *c);

/* Publish and wait for the confirm.
 *
 * @param receipt  NULL or receives the id and the number of queues */
int tidemq_publish(struct tidemq_client *c, const struct tidemq_publication *p,
		   struct tidemq_receipt *receipt);

/* Publish without waiting, as long as the window has room: the confirms come
 * in during later calls. The message may still be in the client's buffer when
 * this returns; tidemq_flush sends it.
 *
 * @return  TIDEMQ_EREFUSED when an earlier pipelined request was refused: which
 *          one is not known, the error says why, and this one was not sent */
int tidemq_publish_pipelined(struct tidemq_client *c, const struct tidemq_publication *p);

/* Wait until everything pipelined is confirmed.
 *
 * @return  TIDEMQ_EREFUSED with the first refusal since the last report */
int tidemq_flush(struct tidemq_client *c);

/* Subscribe channel 0 to a queue; the messages come out of tidemq_next.
 *
 * @param sid       a name of your choice, unique in the channel
 * @param prefetch  unacknowledged messages at most; 0 = the broker's default
 * @param auto_ack  messages count as acknowledged when the broker sent them */
int tidemq_subscribe(struct tidemq_client *c, const char *queue, const char *sid,
		     unsigned prefetch, bool auto_ack);

/* End a subscription. Messages that arrived before stay to be read. */
int tidemq_unsubscribe(struct tidemq_client *c, const char *sid);

/* Take messages without a subscription; they come out of tidemq_next.
 *
 * @param max      1 to 1000
 * @param wait_ms  how long the broker waits for the first one; 0 = not at all
 * @param count    receives how many there are */
int tidemq_get(struct tidemq_client *c, const char *queue, unsigned max, int64_t wait_ms,
	       bool auto_ack, unsigned *count);

/* The next message of any subscription, in the order of arrival.
 *
 * @param timeout_ms  0 = only what has arrived, negative = wait for ever
 * @param out         receives a message for tidemq_msg_free; NULL on failure
 * @return            TIDEMQ_ETIMEDOUT nothing came; the connection goes on.
 *                    TIDEMQ_ECANCELLED a subscription ended, once for each */
int tidemq_next(struct tidemq_client *c, int64_t timeout_ms, struct tidemq_msg **out);

/* Accepts NULL. */
void tidemq_msg_free(struct tidemq_msg *m);

/* Acknowledge: OK when the broker has forgotten the message. TIDEMQ_EREFUSED
 * with lease-lost when it was too late and somebody else has the message. A
 * message without a tag (auto ack) is TIDEMQ_EINVAL, here and below. */
int tidemq_ack(struct tidemq_client *c, const struct tidemq_msg *m);

/* Acknowledge without waiting, like tidemq_publish_pipelined: a refusal is
 * reported by a later call. Sent at the latest when tidemq_next waits. */
int tidemq_ack_pipelined(struct tidemq_client *c, const struct tidemq_msg *m);

enum tidemq_nack {
	TIDEMQ_NACK_RETRY,   /* the queue's retry script decides */
	TIDEMQ_NACK_REQUEUE, /* ready again at once */
	TIDEMQ_NACK_DEAD,    /* to the dead-letter target, or buried */
};
int tidemq_nack(struct tidemq_client *c, const struct tidemq_msg *m,
		enum tidemq_nack how);
/* Delivered again after delay_ms. */
int tidemq_nack_delay(struct tidemq_client *c, const struct tidemq_msg *m,
		      int64_t delay_ms);
/* More time: the ack-timeout starts anew; 0 = with the queue's duration. */
int tidemq_touch(struct tidemq_client *c, const struct tidemq_msg *m, int64_t for_ms);

/* Any request of docs/protocol.md: "DECLARE queue jobs", "@1 OPEN". The line
 * has no line end and no `quiet`; behind a PUB the library adds the payload's
 * length. The payload is NULL for every other verb.
 *
 * @param reply  NULL or receives the reply; its texts are good until the next
 *               call on this client
 * @return       the reply's status */
int tidemq_request(struct tidemq_client *c, const char *line, const void *payload,
		   size_t payload_len, struct tidemq_reply *reply);

/* ---- asynchronous ---------------------------------------------------------- */

struct tidemq_handlers {
	void *ctx;
	/* HELLO was answered, or the client could not connect (`why->status`).
	 * Requests may be sent from now on. */
	void (*on_connected)(struct tidemq_client *c, const struct tidemq_error *why,
			     void *ctx);
	/* A message of a subscription or GET. It is the callback's: free it with
	 * tidemq_msg_free, now or later. */
	void (*on_msg)(struct tidemq_client *c, struct tidemq_msg *m, void *ctx);
	/* An EVT other than a heartbeat: "blocked store", "unblocked",
	 * "cancelled s1 deleted". The text is good during the callback. NULL: none. */
	void (*on_event)(struct tidemq_client *c, unsigned channel, const char *text,
			 void *ctx);
	/* The connection ended though nobody called tidemq_close, which must still
	 * be called. Requests in flight have failed with TIDEMQ_ECLOSED before. */
	void (*on_lost)(struct tidemq_client *c, const struct tidemq_error *why,
			void *ctx);
};

/* The reply is good during the callback. After a lost connection or
 * tidemq_close, each request in flight gets its callback with TIDEMQ_ECLOSED. */
typedef void (*tidemq_reply_fn)(struct tidemq_client *c, const struct tidemq_reply *reply,
				void *ctx);

/* Begin to connect; the outcome is on_connected's. Handlers are copied. No
 * callback runs before this, or any other function of this half, returns.
 *
 * @return  a client for tidemq_close; NULL when an argument is wrong, with err
 *          filled if it is not NULL */
struct tidemq_client *tidemq_start(struct uv_loop_s *loop, const char *url,
				   const struct tidemq_options *options,
				   const struct tidemq_handlers *handlers,
				   struct tidemq_error *err);

/* Send a request as with tidemq_request; everything sent in one turn of the
 * loop leaves in one write. Replies match requests in order, per channel. The
 * OK of a GET comes before its messages, which are on_msg's.
 *
 * @param on_reply  NULL when nobody wants to know
 * @return          TIDEMQ_EBUSY the window or the output buffer is full: send
 *                  again after a reply; TIDEMQ_EINVAL, TIDEMQ_ENOMEM,
 *                  TIDEMQ_ECLOSED. on_reply is called only after TIDEMQ_OK */
int tidemq_send(struct tidemq_client *c, const char *line, const void *payload,
		size_t payload_len, tidemq_reply_fn on_reply, void *ctx);

/* Send a PUB; a reply with TIDEMQ_OK is the confirm. `channel` must be open. */
int tidemq_send_publication(struct tidemq_client *c, unsigned channel,
			    const struct tidemq_publication *p, tidemq_reply_fn on_reply,
			    void *ctx);

/* Read the words of a PUB's OK. TIDEMQ_EPROTOCOL when they are none. */
int tidemq_reply_receipt(const struct tidemq_reply *reply,
			 struct tidemq_receipt *receipt);

/* Stop, fail what is in flight, free, then on_closed (may be NULL). The client
 * must not be used after the call; its pointer is good until on_closed. For
 * clients from tidemq_start, also after on_lost. */
void tidemq_close(struct tidemq_client *c, void (*on_closed)(void *ctx), void *ctx);

#ifdef __cplusplus
}
#endif

#endif
