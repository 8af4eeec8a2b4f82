/* tidemq/client.h: a client of the tidemq message broker, in C.
 *
 * One client is one connection. Use it in one of two ways:
 *
 * Blocking: tidemq_connect returns a client with an event loop of its own. Each
 * call returns when the broker has answered. Nothing happens between the calls:
 * no thread, no signal handler.
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
 * Asynchronous: tidemq_start puts a client on a libuv loop of yours. You send
 * requests with tidemq_send and tidemq_send_publication. Everything that arrives
 * is a callback from that loop. See the second half of this file.
 *
 * Errors are negative numbers of enum tidemq_status; 0 is success. A request that
 * the broker refused is TIDEMQ_EREFUSED; struct tidemq_error then has the code and
 * the sentence of the protocol. TIDEMQ_ECLOSED, TIDEMQ_EPROTOCOL and, while waiting
 * for a reply, TIDEMQ_ETIMEDOUT end the connection. Such a client can only be
 * closed.
 *
 * Reconnecting: with the option `reconnect` the library connects again instead, and
 * restores what was there:
 *
 *   declarations, bindings, channels   those that this client made
 *   subscriptions                      with their names; but none to exclusive queues,
 *                                      which end with their connection: "cancelled"
 *   publishes without a reply          are sent again. The library gives them an id
 *                                      (dedupe_id) if they have none, so that a queue
 *                                      that has one does not take it twice
 *   requests that may be repeated      are sent again: GET, LIST, DECLARE, SUB, ...
 *   other requests without a reply     fail with TIDEMQ_ELOST: nobody knows whether
 *                                      they were carried out
 *   messages that were not settled     come again. An ack of one that came before is
 *                                      TIDEMQ_ELEASELOST
 *   an open transaction                is lost, and nothing of it was carried out: all
 *                                      that belongs to it is TIDEMQ_ELOST, up to COMMIT
 *                                      or ROLLBACK
 *
 * Then only TIDEMQ_ECLOSED means that the client has ended. docs/client.md says more.
 *
 * Texts that you pass are zero-terminated UTF-8, and the call copies them. The
 * comment of each function says how long a returned pointer is good. Times are
 * milliseconds. Like every program on libuv, ignore SIGPIPE.
 *
 * Threads: nothing is global, and clients do not know of each other: each thread may
 * have its own. One thread at a time may use a blocking client. An asynchronous client
 * belongs to the thread that runs its loop, and so do its callbacks; to make it do
 * something from another thread, use uv_async_send. Free a message in any thread.
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
	TIDEMQ_ECONNECT = -1,    /* the broker could not be reached */
	TIDEMQ_ETIMEDOUT = -2,   /* it did not answer in time */
	TIDEMQ_ECLOSED = -3,     /* the connection has ended */
	TIDEMQ_EPROTOCOL = -4,   /* the other side does not speak the protocol */
	TIDEMQ_EINVAL = -5,      /* an argument of the call is wrong; nothing was sent */
	TIDEMQ_ENOMEM = -6,      /* no memory for a payload; nothing was sent */
	TIDEMQ_EREFUSED = -7,    /* the broker answered ERR */
	TIDEMQ_EBUSY = -8,       /* the window is full; wait for a reply first */
	TIDEMQ_ECANCELLED = -9,  /* the broker ended a subscription */
	TIDEMQ_EEVENT = -10,     /* no message but an event, which was asked for */
	TIDEMQ_ELOST = -11,      /* the connection was lost before the reply; the client
				  * goes on, with the option `reconnect` */
	TIDEMQ_ELEASELOST = -12, /* the broker answered ERR lease-lost: the message is no
				  * longer yours. A worker logs it and goes on */
};

/* A few words for a status, in static storage. */
const char *tidemq_status_text(int status);

#define TIDEMQ_WORD_MAX 32
#define TIDEMQ_TEXT_MAX 512

struct tidemq_error {
	int status;
	/* The code of the broker's ERR, "not-found"; empty for other errors. */
	char word[TIDEMQ_WORD_MAX];
	/* A sentence for a person, without a line break and a final full stop. */
	char text[TIDEMQ_TEXT_MAX];
};

/* The news for options.on_state. */
enum tidemq_state {
	TIDEMQ_CONNECTED, /* for the first time */
	TIDEMQ_LOST,      /* the connection has ended, `why` says how; another is tried */
	TIDEMQ_RESTORED, /* there is another one. why->status is TIDEMQ_EREFUSED, with the
			  * broker's sentence, if something could not be restored */
	TIDEMQ_GAVE_UP,  /* the client has ended, `why` says why */
};

/* All zero gives the defaults. */
struct tidemq_options {
	const char *name;           /* what LIST connections shows for this client */
	int64_t connect_timeout_ms; /* to a broker's first answer; default 10000 */
	int64_t request_timeout_ms; /* how long blocking calls wait for a reply;
				     * default 30000, negative = for ever */
	int64_t heartbeat_ms;       /* 1000 to 3600000; default 0 = none. A blocking
				     * client sends none between its calls */
	unsigned prefetch;          /* unacknowledged messages of all subscriptions of
				     * channel 0; default 0 = no limit but theirs */
	bool events;                /* tidemq_next returns events too */
	unsigned window;            /* unanswered requests at most; default 1000 */
	size_t payload_max_bytes;   /* of a payload from the broker; default 256 MiB */
	/* Connect again when the connection is lost, and restore what was there. See
	 * "Reconnecting" below. */
	bool reconnect;
	int64_t reconnect_for_ms; /* give up after that long without a connection;
				   * default 0 = never */
	/* May be NULL. Of a blocking client it is called inside other calls. It may send
	 * and close as a handler may, but call no blocking function. */
	void (*on_state)(struct tidemq_client *c, enum tidemq_state state,
			 const struct tidemq_error *why, void *ctx);
	void *on_state_ctx;
	/* Of tides:// alone: paths of PEM files. They are read by tidemq_connect and
	 * tidemq_start; with tls_ca again for each new connection. NULL: the
	 * environment's TIDEMQ_TLS_CA, TIDEMQ_TLS_CERT, TIDEMQ_TLS_KEY, if it has them.
	 */
	const char *tls_ca;   /* whom to trust; else those whom the system trusts */
	const char *tls_cert; /* ours, for a broker that asks; with tls_key */
	const char *tls_key;  /* not encrypted */
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
	unsigned priority;      /* 0 to 255, higher is more urgent */
	int64_t delay_ms;       /* not delivered before; 0 = at once */
	int64_t ttl_ms;         /* not delivered later; 0 = no end */
	int64_t ack_timeout_ms; /* how long a consumer may hold it; 0 = as the consumer
				 * or the queue says */
	bool must;              /* refuse it (unroutable) when no queue takes it */
	bool transient;         /* in memory alone: it may be lost with the broker */
	/* Your own id for it, 1 to 128 bytes; NULL = none. A queue that has seen the id
	 * does not store a second publication with it. So you may send it again when you
	 * do not know whether it arrived. */
	const char *dedupe_id;
	/* Of topics: append it only if its partition ends at this offset, else it is
	 * refused (mismatch). */
	bool has_expected_offset;
	uint64_t expected_offset;
};

/* The receipt of a confirmed publication. */
struct tidemq_receipt {
	char id[17];       /* 16 hex digits */
	unsigned queues;   /* queues and topics that took it */
	unsigned topics;   /* of these */
	bool is_duplicate; /* they had it before; the id is that of the first */
	bool has_offset;   /* a topic has it, there; the first one if several do */
	unsigned partition;
	uint64_t offset;
	/* The publish is part of a transaction (BEGIN): the rest is empty, and the
	 * reply to COMMIT is the confirm. */
	bool is_queued;
};

/* A message from the broker. One allocation holds all of it. */
struct tidemq_msg {
	const char *sid; /* the subscription; "-" for tidemq_get */
	unsigned channel;
	uint64_t tag;         /* to acknowledge it by; 0 = no ack is expected */
	unsigned attempt;     /* 1 at the first delivery */
	const char *exchange; /* "" is the default exchange */
	const char *key;
	char id[17];
	int64_t ts_unix_ms; /* when it was published */
	unsigned priority;
	bool redelivered; /* a consumer may have seen it before */
	bool has_offset;  /* it is a topic's, and lies there */
	unsigned partition;
	uint64_t offset;
	const struct tidemq_header *headers;
	size_t header_count;
	const char *payload; /* followed by a zero that is not counted */
	size_t payload_len;
};

/* The value of a header, zero-terminated; NULL if there is none. */
const char *tidemq_msg_header(const struct tidemq_msg *m, const char *name);

/* The broker's answer. */
struct tidemq_reply {
	int status;       /* TIDEMQ_OK or an error */
	const char *word; /* the code of an ERR; "" otherwise */
	/* TIDEMQ_OK: the words after OK, or the document of DATA. An error: its
	 * sentence. Followed by a zero that is not counted. */
	const char *text;
	size_t len;
	bool is_document; /* the text is a DATA document: JSON */
};

/* The blocking functions. */

/* Connect to tide://[user:pass@]host[:port]/vhost, tides://… (the same with TLS) or
 * tide+unix:/path/of/socket[?vhost=name], and exchange HELLO. Of several URLs, with
 * commas between them, the first that answers is taken.
 *
 * Port 7310 and vhost / are the defaults; user, pass and vhost may be
 * percent-encoded; an IPv6 address stands in brackets.
 *
 * @param options  NULL for the defaults
 * @param err      NULL, or receives why there is no client
 * @return         a client for tidemq_disconnect, or NULL */
struct tidemq_client *tidemq_connect(const char *url,
				     const struct tidemq_options *options,
				     struct tidemq_error *err);

/* Leave in order (QUIT), close and free. Publications that were not confirmed may be
 * lost. Messages that were not acknowledged go back to their queues, and none of them
 * counts as failed. Waits for the broker, up to 5 s. Accepts NULL. */
void tidemq_disconnect(struct tidemq_client *c);

/* Why the last call on this client failed. Good until the next call. */
const struct tidemq_error *tidemq_last_error(const struct tidemq_client *c);

/* The broker's HELLO document (JSON). Good until there is another connection. */
const char *tidemq_server_info(const struct tidemq_client *c);

/* Publish and wait for the confirm.
 *
 * @param receipt  NULL, or receives the id and the number of queues */
int tidemq_publish(struct tidemq_client *c, const struct tidemq_publication *p,
		   struct tidemq_receipt *receipt);

/* Publish without waiting while the window has room. The confirms arrive during
 * later calls. The message may still be in the client's buffer when this returns;
 * tidemq_flush sends it.
 *
 * @return  TIDEMQ_EREFUSED: an earlier pipelined request was refused, and this one
 *          was not sent. The error says why, but not which request it was */
int tidemq_publish_pipelined(struct tidemq_client *c, const struct tidemq_publication *p);

/* Wait until everything pipelined is confirmed.
 *
 * @return  TIDEMQ_EREFUSED with the first refusal since the last report */
int tidemq_flush(struct tidemq_client *c);
/* How many publications of tidemq_publish_pipelined the broker has confirmed so far.
 * After tidemq_flush those that are missing were refused, or lost with a connection. */
uint64_t tidemq_confirmed(const struct tidemq_client *c);

struct tidemq_subscription {
	const char *queue;       /* or a topic */
	const char *sid;         /* a name of your choice, unique in the channel */
	unsigned prefetch;       /* unacknowledged messages at most; 0 = the broker's
				  * default */
	bool auto_ack;           /* a message counts as acknowledged when it is sent */
	int64_t ack_timeout_ms;  /* how long you may work on a message; 0 = as the queue
				  * says */
	int priority;            /* -1000 to 1000: among the consumers of the queue,
				  * higher is served first */
	unsigned rank;           /* 1 to 1000: with the option `prefetch`, lower is
				  * served first; 0 = the last */
	int64_t notify_lease_ms; /* how long before the lease of a message ends an
				  * event tells so; 0 = none. See the option `events` */
	bool exclusive;          /* refused while the queue has another subscription,
				  * and others are while this one lasts */
	/* Of a topic alone: docs/topics.md. The members of a group share its partitions
	 * and go on where it has committed. Without a group (NULL) you are a reader of
	 * your own: you get all partitions, and nothing is committed. */
	const char *group;
	const char *from;   /* where to begin: "first", "last", an offset, a time;
			     * NULL = the default */
	bool has_partition; /* a reader: this partition alone */
	unsigned partition;
};

/* Subscribe channel 0 to a queue or a topic. tidemq_next returns the messages. */
int tidemq_subscribe(struct tidemq_client *c, const struct tidemq_subscription *s);

/* End a subscription. tidemq_next still returns the messages that arrived before. */
int tidemq_unsubscribe(struct tidemq_client *c, const char *sid);

struct tidemq_fetch {
	const char *const *queues; /* the most urgent first */
	size_t queue_count;        /* 1 to 64 */
	unsigned max;              /* 1 to 1000; 0 = 1 */
	int64_t wait_ms; /* how long the broker waits for a message; 0 = not at all */
	bool auto_ack;   /* as for a subscription, like the next one */
	int64_t ack_timeout_ms;
	const char *match; /* only messages that match, as `match=` of GET; NULL = any */
	/* Of one topic alone, one of two ways. With a group: what it has not had. With
	 * a partition: what lies there from an offset or a time on; nothing is held, and
	 * nothing is to be acknowledged. */
	const char *group;
	const char *from; /* where a group that has committed nothing begins */
	bool has_partition;
	unsigned partition;
	const char *offset; /* "first", "last", an offset, a time */
};

/* Take messages without a subscription. tidemq_next returns them.
 *
 * @param count  receives how many there are */
int tidemq_get(struct tidemq_client *c, const struct tidemq_fetch *f, unsigned *count);

/* The next message of any subscription, in the order of arrival.
 *
 * @param timeout_ms  0 = only what has arrived, negative = wait for ever
 * @param out         receives a message for tidemq_msg_free; NULL on failure
 * @return            TIDEMQ_ETIMEDOUT: nothing came; the connection goes on.
 *                    TIDEMQ_ECANCELLED: a subscription ended, once for each.
 *                    TIDEMQ_EEVENT, with the option `events`: an event arrived, whose
 *                    text is that of tidemq_last_error ("lease s1 7 500", "active s1").
 *                    Events come before messages that have arrived */
int tidemq_next(struct tidemq_client *c, int64_t timeout_ms, struct tidemq_msg **out);

/* Accepts NULL. */
void tidemq_msg_free(struct tidemq_msg *m);

/* Acknowledge. TIDEMQ_OK: the broker has forgotten the message, also if the ack came
 * late and nobody else had it. TIDEMQ_ELEASELOST: another consumer has the message, or
 * has settled it. A message without a tag (auto ack) is TIDEMQ_EINVAL, here and below. */
int tidemq_ack(struct tidemq_client *c, const struct tidemq_msg *m);

/* Acknowledge without waiting, like tidemq_publish_pipelined. A later call reports
 * a refusal. The ack is sent by a later call of tidemq_next: together with others, but
 * not later than the first call that comes 10 ms after those before. */
int tidemq_ack_pipelined(struct tidemq_client *c, const struct tidemq_msg *m);

enum tidemq_nack {
	TIDEMQ_NACK_RETRY,   /* the queue's retry script decides */
	TIDEMQ_NACK_REQUEUE, /* you have not begun it: ready again at once, no failure */
	TIDEMQ_NACK_DEAD,    /* to the dead-letter target, or buried */
	TIDEMQ_NACK_BURY,    /* set aside until a KICK */
};
int tidemq_nack(struct tidemq_client *c, const struct tidemq_msg *m,
		enum tidemq_nack how);
/* The same, and says why. Whoever gets the message next sees the text, in the header
 * x-death-reason-text, and its dead letter has it. The broker keeps 256 bytes of it.
 *
 * @param reason  NULL: it is tidemq_nack. Any bytes but a zero */
int tidemq_nack_reason(struct tidemq_client *c, const struct tidemq_msg *m,
		       enum tidemq_nack how, const char *reason);
/* The message is delivered again after delay_ms. */
int tidemq_nack_delay(struct tidemq_client *c, const struct tidemq_msg *m,
		      int64_t delay_ms);
/* Ask for more time: the lease starts again. 0 = with the duration that it had. */
int tidemq_touch(struct tidemq_client *c, const struct tidemq_msg *m, int64_t for_ms);

/* Any request of docs/protocol.md: "DECLARE queue jobs", "@1 OPEN", "BEGIN". Between
 * BEGIN and COMMIT, tidemq_publish, tidemq_ack and tidemq_nack are part of the
 * transaction. The line has no line end and no `quiet`. After a PUB the library adds the
 * length of the payload. For every other verb the payload is NULL.
 *
 * @param reply  NULL, or receives the reply. Its texts are good until the next
 *               call on this client
 * @return       the status of the reply */
int tidemq_request(struct tidemq_client *c, const char *line, const void *payload,
		   size_t payload_len, struct tidemq_reply *reply);

/* The asynchronous functions. */

struct tidemq_handlers {
	void *ctx;
	/* HELLO was answered, and you may send requests; or the client could not
	 * connect, and `why->status` is an error. */
	void (*on_connected)(struct tidemq_client *c, const struct tidemq_error *why,
			     void *ctx);
	/* A message of a subscription or GET. It belongs to the callback: free it with
	 * tidemq_msg_free, now or later. */
	void (*on_msg)(struct tidemq_client *c, struct tidemq_msg *m, void *ctx);
	/* An EVT other than a heartbeat: "unblocked", "cancelled s1 queue-deleted",
	 * "blocked 64 MiB are waiting to be written to Redis". The text is good during
	 * the callback. May be NULL. */
	void (*on_event)(struct tidemq_client *c, unsigned channel, const char *text,
			 void *ctx);
	/* The connection ended without tidemq_close, which you must still call. Before
	 * this callback, requests in flight have failed with TIDEMQ_ECLOSED. With the
	 * option `reconnect`: the library gave up. */
	void (*on_lost)(struct tidemq_client *c, const struct tidemq_error *why,
			void *ctx);
};

/* The reply is good during the callback. After a lost connection or
 * tidemq_close, each request in flight gets its callback with TIDEMQ_ECLOSED. With the
 * option `reconnect` a lost connection is TIDEMQ_ELOST, for those that are not sent
 * again. */
typedef void (*tidemq_reply_fn)(struct tidemq_client *c, const struct tidemq_reply *reply,
				void *ctx);

/* Begin to connect. on_connected tells the outcome. The handlers are copied. No
 * callback runs before this, or any other function of this half, returns.
 *
 * @param err  NULL, or receives why there is no client
 * @return     a client for tidemq_close; NULL if an argument is wrong */
struct tidemq_client *tidemq_start(struct uv_loop_s *loop, const char *url,
				   const struct tidemq_options *options,
				   const struct tidemq_handlers *handlers,
				   struct tidemq_error *err);

/* Send a request as with tidemq_request. Everything that you send in one event loop
 * turn leaves in one write. Replies match requests in order, for each channel. The OK
 * of a GET comes before its messages, which go to on_msg.
 *
 * @param on_reply  may be NULL; called only if this returns TIDEMQ_OK
 * @return          TIDEMQ_EBUSY: the window or the output buffer is full, send again
 *                  after a reply. TIDEMQ_EINVAL, TIDEMQ_ENOMEM, TIDEMQ_ECLOSED. With the
 *                  option `reconnect` also TIDEMQ_EBUSY while there is no connection, but
 *                  not for a publish; TIDEMQ_ELEASELOST for the tag of a lost connection;
 *                  TIDEMQ_ELOST for a part of a lost transaction */
int tidemq_send(struct tidemq_client *c, const char *line, const void *payload,
		size_t payload_len, tidemq_reply_fn on_reply, void *ctx);

/* Send a PUB. A reply with TIDEMQ_OK is the confirm. `channel` must be open. */
int tidemq_send_publication(struct tidemq_client *c, unsigned channel,
			    const struct tidemq_publication *p, tidemq_reply_fn on_reply,
			    void *ctx);

/* Read the words of a PUB's OK. TIDEMQ_EPROTOCOL: they are not such words. */
int tidemq_reply_receipt(const struct tidemq_reply *reply,
			 struct tidemq_receipt *receipt);

/* Leave in order, as tidemq_disconnect: send QUIT, wait for its reply up to 5 s, fail the
 * requests in flight, free the client, then call on_closed (may be NULL). No handler is
 * called any more. Do not use the client after this call; its pointer is good until
 * on_closed. For clients from tidemq_start, also after on_lost. */
void tidemq_close(struct tidemq_client *c, void (*on_closed)(void *ctx), void *ctx);

#ifdef __cplusplus
}
#endif

#endif
