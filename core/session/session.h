/* session.h: what a client may ask of the broker, whatever protocol it speaks.
 *
 * A session belongs to one connection. A request first makes a reply (reply_create),
 * then calls a command with it. The command finishes the reply, now or later. Replies
 * leave through session_ops, in the order of their channel. Any of these calls may make
 * the connection close itself. Only its owner destroys a session.
 *
 * Sessions and channels are closed: a protocol knows them by these functions alone. */
#pragma once

#include "access/user.h"
#include "base/args.h"
#include "base/json.h"
#include "base/duration.h"
#include "follow/tracer.h"
#include "reply.h"

struct allowance;
struct channel;
struct queue;
struct service;
struct session;
struct session_peer;
struct session_transaction;

struct session_ops {
	/* A reply leaves; it is freed after the call. */
	void (*on_reply)(void *ctx, unsigned channel, struct reply *r);
	void (*on_deliver)(void *ctx, unsigned channel, struct slice sid,
			   const struct delivery *d);
	/* what: "cancelled", ...; words: the rest of the line. */
	void (*on_event)(void *ctx, unsigned channel, const char *what,
			 const char *words);
	/* A quiet reply is done and nothing was written: fewer requests are pending. */
	void (*on_progress)(void *ctx);
	/* The connection's output is below its high-water mark. */
	bool (*can_take)(void *ctx);
	/* Publishers are held back, or let go on. */
	void (*on_blocked)(void *ctx, bool is_blocked, const char *why);
	/* Somebody has killed the connection: say why, and close it soon, whatever it
	 * still owes or is owed. */
	void (*on_kill)(void *ctx, const char *why);
	/* Write the members that LIST connections shows of the connection. */
	void (*describe)(void *ctx, struct json *out);
	/* Where it comes from, and by what. */
	void (*facts)(void *ctx, struct session_peer *out);
};

/* The session's knowledge of its connection. Texts live as long as that. */
struct session_peer {
	const char *address;     /* "127.0.0.1:50412", "unix"; NULL: not known */
	const char *protocol;    /* "line" */
	const char *certificate; /* the name in the client's, verified; NULL: none */
	bool is_local;           /* of this machine: loopback or a Unix socket */
	bool is_tls;
	/* serve --tls-user: who has a certificate is the user of that name, without a
	 * password. */
	bool is_certificate_user;
	uint64_t bytes_in, bytes_out;
	size_t output; /* bytes that wait for the peer */
};

struct session *session_create(struct service *service, const struct session_ops *ops,
			       void *ctx);
/* Return the messages of the session, delete its exclusive queues, and free it. */
void session_destroy(struct session *s);

/* A session that acts for `s`, as the same user in the same vhost, and may outlive it. It
 * counts as no connection of the user or the address. Its `ops` know the address of `s`,
 * without a port. */
struct session *session_beside_create(const struct session *s,
				      const struct session_ops *ops, void *ctx);
/* Where `s` comes from. */
struct session_peer session_beside_peer(const struct session *s);
/* Does it serve `s` as well: the same user and vhost, and, if scripts ask for it,
 * address? */
bool session_beside_is_same(const struct session *beside, const struct session *s);
/* Are its messages those of the user of `s`, in the vhost of `s`? */
bool session_beside_may_act(const struct session *beside, const struct session *s);
/* Does its channel 0 hold messages? */
bool session_beside_is_holding(const struct session *s);
/* The GET of its channel 0 that `r` answers takes what is there now. */
void session_beside_end_wait(struct session *s, const struct reply *r);
/* Return messages that its channel 0 was given and the client has not seen, as if
 * they had never been taken. */
void session_beside_return(struct session *s, const struct delivery *deliveries,
			   uint64_t count);

/* The allowance of its address: NULL when there are no limits. It lasts as long as
 * the session. */
void session_allowance_set_address(struct session *s, struct allowance *a);
/* Beyond a rate its publishes are taken, and the session is held until that is made good.
 * For protocols whose errors end the connection: others refuse. */
void session_allowance_throttle(struct session *s);
/* The channel, or NULL when it is not open. */
struct channel *session_channel(struct session *s, unsigned number);
/* A channel that was closed, but still owes replies; NULL when there is none. */
struct channel *session_closing_channel(struct session *s, unsigned number);
/* Can there be a vhost of that name? */
TIDE_MUST_USE int session_check_vhost(struct slice name, struct error *err);
/* There is one. */
bool session_has_vhost(const struct session *s, struct slice name);
void session_set_name(struct session *s, struct slice name);
/* The peer has ended its side: its waiting GETs take what is there now. Otherwise a
 * peer that is gone would get messages for as long as they wait. */
void session_end_waits(struct session *s);
/* The client leaves in order: the messages that it holds have not failed. */
void session_leave(struct session *s);
/* The connection breaks: unless the client has left, the messages that its consumers
 * were at work on have failed. */
void session_break(struct session *s);
/* The client is silent from now on, without even an ACK: its messages are returned. */
void session_return_held(struct session *s);
/* The output has drained. */
void session_drained(struct session *s);
/* Must the session wait? It has its limit of unanswered requests, or of answers that
 * wait for earlier ones, or a request that resumes in the next turn, or publishers
 * are held back. In the middle of a payload: session_receive.c. */
bool session_is_held(const struct session *s, bool is_receiving);

/* The next request is for a document. False: an answer before it is late, and the session
 * is held for that. */
bool session_answer_may_begin(struct session *s);
/* A document is being written, or much of the last answers was not taken. */
bool session_answer_is_late(const struct session *s);
/* An answer of so many bytes is in the output, or kept for it. It is memory until it has
 * been taken. */
void session_answer_stand(struct session *s, size_t bytes);
/* Some of the output was taken: so much of it is left. */
void session_answer_leave(struct session *s, size_t left);

/* All its requests are answered. */
bool session_is_answered(const struct session *s);
/* The requests of the session follow: take the time, and begin its slice of the turn.
 * The loop may have waited long for them. */
void session_begin(struct session *s);
/* Around a request that may take long: what came before is the others'; what has been
 * done since is this one, a literal. */
void session_name_request(struct session *s, const char *what);
/* After a request: its slice is used up.
 * @param is_heavy  the request alone may have taken long */
bool session_is_spent(struct session *s, bool is_heavy);

/* The answer of HELLO. */
struct session_facts {
	struct slice vhost;
	uint64_t number; /* of the connection */
	unsigned node;
	unsigned channels_max;
	const char *confirm;  /* what an OK to a durable change means */
	unsigned cell, cells; /* of the store: this broker's, and how many there are */
};
struct session_facts session_facts(const struct session *s);

/* A channel that is not open: TIDE_EEXISTS when it is, TIDE_ELIMIT. One that
 * still owes replies from before is taken up again, so that they come first. */
TIDE_MUST_USE int session_open(struct session *s, unsigned number, struct channel **out,
			       struct error *err);
/* How many messages its subscriptions may hold together, before it has one; 0: as many as
 * each may. */
void session_limit_channel(struct channel *ch, uint32_t prefetch);
/* Other limits from now on: of each of its subscriptions, or of all together. */
void session_limit_consumers(struct channel *ch, uint32_t prefetch);
void session_limit_change(struct channel *ch, uint32_t prefetch);
/* Close a channel: its GETs that wait are answered with nothing, then `r`, the last
 * of its replies. It is freed when that has left: perhaps within the call. */
void session_close_channel(struct channel *ch, struct reply *r);

/* HELLO, or what the protocol has for it. Slices without data: not given. */
struct session_login {
	struct slice user, password, vhost;
	bool must_exist; /* the vhost, also if a grant names it */
	/* Any vhost will do: who may not enter the one that is given enters the first of
	 * the own ones. */
	bool is_any_vhost;
	/* The vhost follows: session_login_enter comes before any other request. */
	bool is_user_alone;
	/* The login is decided, and the reply is to be finished. `refusal` is NULL
	 * when the session is in. The call may come within session_login_start, and
	 * does not come when the session ends before. */
	void (*on_done)(void *ctx, struct reply *r, const struct error *refusal);
	void *ctx;
};
/* Enter the vhost, as the user when users are defined. Until it is decided the session is
 * held. On an error that it returns on_done does not come. */
TIDE_MUST_USE int session_login_start(struct session *s, const struct session_login *l,
				      struct reply *r, struct error *err);
/* After a login with is_user_alone: enter the vhost. */
TIDE_MUST_USE int session_login_enter(struct session *s, struct slice vhost,
				      struct error *err);
/* TIDE_EDENIED: it must log in first. A protocol asks before each request but those that
 * need no login. What is allowed once stays so: a session that may not go on is killed.
 */
TIDE_MUST_USE int session_login_check(const struct session *s, struct error *err);
/* The same for a protocol in which nobody has to say who he is: the scripts of connect/
 * are asked about one that has not, once. */
TIDE_MUST_USE int session_login_admit(struct session *s, struct error *err);
/* A login is required and has not happened. */
bool session_is_stranger(const struct session *s);
/* A login attempt is under way. */
bool session_is_logging_in(const struct session *s);
/* For on_done with a refusal: the user is who it says, but may not come here. */
bool session_is_shut_out(const struct session *s);

/* TIDE_EDENIED: its user has not the tag. An operation is checked before it is called
 * (ops/operation.h).
 *
 * @param what  the request */
TIDE_MUST_USE int session_access_check_admin(const struct session *s, const char *what,
					     struct error *err);
TIDE_MUST_USE int session_access_check_monitor(const struct session *s, const char *what,
					       struct error *err);

/* The commands. Each finishes `r`, now or later. On an error the caller does:
 * reply_error. A queue or a topic that a command takes is usable, and its user may do
 * that: operation.h. */

/* The queue or the topic, if this session may do that with it, whether it is usable or
 * not: unusable.h. */
TIDE_MUST_USE int session_queue_any(struct session *s, enum user_action action,
				    struct slice name, struct queue **out,
				    struct error *err);
/* The same, and it is a queue; or a topic. */
TIDE_MUST_USE int session_queue_find(struct session *s, enum user_action action,
				     struct slice name, struct queue **out,
				     struct error *err);
TIDE_MUST_USE int session_queue_find_topic(struct session *s, enum user_action action,
					   struct slice name, struct queue **out,
					   struct error *err);

enum define_kind { DEFINE_EXCHANGE, DEFINE_QUEUE, DEFINE_TOPIC, DEFINE_VHOST };

struct declare_spec {
	enum define_kind kind;
	struct slice name;  /* "-": the broker chooses that of a queue, and says it */
	const char *prefix; /* of such a name; NULL: "gen-" */
	struct slice type;  /* of an exchange */
	const struct args *args;
	bool update;       /* beside the args: they change what exists */
	int64_t on_demand; /* of a vhost: vhost_keep_declare */
	int64_t cell;      /* likewise: where it is to be; below 0: where it is */
};
/* A queue or a topic of that name is there: it may have any options. Who may do nothing
 * with the name is not told. */
bool session_define_exists(struct session *s, struct slice name);
/* What is there under a name, for protocols whose declarations ask for it. */
struct define_facts {
	bool is_topic;
	bool is_locked;      /* an exclusive queue of another connection */
	bool has_lease;      /* the queue says itself how long a message may be held */
	const char *type;    /* of an exchange */
	uint64_t ready;      /* of a queue: messages */
	unsigned consumers;  /* likewise */
	struct args options; /* of its declaration, without those that have defaults */
};
/* TIDE_ENOTFOUND; TIDE_EDENIED: its user may do nothing with the name. Free the options
 * if it is there. */
TIDE_MUST_USE int session_define_look(struct session *s, enum define_kind kind,
				      struct slice name, struct define_facts *out,
				      struct error *err);
TIDE_MUST_USE int session_define_declare(struct session *s,
					 const struct declare_spec *spec, struct reply *r,
					 struct error *err);

struct delete_spec {
	enum define_kind kind;
	struct slice name;
	bool if_empty; /* of a queue */
	bool if_unused;
	bool with_contents; /* of a vhost */
};
TIDE_MUST_USE int session_define_delete(struct session *s, const struct delete_spec *spec,
					struct reply *r, struct error *err);

enum bind_to { BIND_TO_QUEUE, BIND_TO_EXCHANGE, BIND_TO_TOPIC };
struct bind_spec {
	struct slice dest;
	struct slice exchange;
	struct slice pattern; /* may be empty */
	const struct args *args;
	enum bind_to to; /* a topic is bound like a queue */
};
TIDE_MUST_USE int session_define_bind(struct session *s, const struct bind_spec *spec,
				      struct reply *r, struct error *err);
TIDE_MUST_USE int session_define_unbind(struct session *s, const struct bind_spec *spec,
					struct reply *r, struct error *err);

/* The version changes when exchanges or queues come or go. */
uint64_t session_route_version(const struct session *s);

struct publish_spec {
	struct slice exchange; /* empty: the default exchange */
	struct slice key;
	uint8_t priority;
	int64_t delay_ms;
	int64_t ttl_ms;          /* 0 = lives for ever */
	uint32_t ack_timeout_ms; /* 0 = as consumer and queue say */
	bool is_transient;       /* the publisher can do without it after a restart */
	struct slice dedupe_id;  /* MSG_DEDUPE_ID_MAX bytes at most; empty = none */
	const struct msg_header *headers;
	unsigned header_count;
	const char *payload; /* NULL: the caller fills it in */
	size_t payload_len;
};
/* Check the request and make the message; its payload is still to be filled
 * in. Refused here, a payload need not even be read. */
TIDE_MUST_USE int session_publish_prepare(struct session *s,
					  const struct publish_spec *spec,
					  struct msg **out, struct error *err);
/* The payload of a request is not there at once: so many more bytes of it have come, and
 * `missing` may follow. session_receive.c says when it may go on. */
void session_receive_add(struct session *s, size_t bytes, size_t missing);
/* All of it is there, or the rest never will be. */
void session_receive_end(struct session *s);
/* A payload of which no more than this is missing does not wait. */
#define SESSION_RECEIVE_SMALL ((size_t)64 << 10)
/* Others wait for memory: little is read at once, and nobody may dawdle. */
bool session_receive_is_waited_for(const struct session *s);
/* Publishers are held back. */
bool session_publish_is_blocked(const struct session *s);
/* Publishers are held back, and this session has not published yet. */
bool session_publish_is_next_held(const struct session *s);
/* The session is about to publish for the first time: from now on it is held back,
 * and told so, like those that have. */
void session_publish_begin(struct session *s);
/* The protocol refuses publishes while publishers are held back: the session is never
 * held for that. */
void session_publish_hold_never(struct session *s);
/* The demand of a publisher; if it is not met, the publish fails, and no message is
 * stored. */
struct publish_demand {
	bool must;         /* a queue takes it */
	bool has_expected; /* a topic takes it, and each that does has it at this offset
			    */
	uint64_t expected;
	/* It goes by these keys as well; not in a transaction. */
	const struct slice *keys;
	unsigned key_count;
	/* The transaction of the publish; NULL: the channel's, if that has one. */
	struct session_transaction *transaction;
};
void session_publish_take(struct session *s, struct msg *m,
			  const struct publish_demand *demand, struct reply *r);

#define SUBSCRIBE_PRIORITY_MIN (-1000)
#define SUBSCRIBE_PRIORITY_MAX 1000
#define SUBSCRIBE_RANK_MAX 1000
struct subscribe_spec {
	struct slice queue; /* or topic */
	struct slice sid;
	uint32_t prefetch;
	uint32_t ack_timeout_ms; /* 0 = the queue's */
	int64_t notify_lease_ms; /* EVT lease comes so long before a lease ends; 0: none
				  */
	uint32_t rank;           /* within its channel: lower ones are served first */
	int32_t priority;        /* higher ones are served first */
	bool is_auto_ack;
	bool is_exclusive; /* the queue has no other subscription meanwhile */
	/* Of a topic. */
	struct slice group; /* data == NULL: none */
	struct position from;
	int64_t partition; /* without a group: the one to read; -1: all */
};
TIDE_MUST_USE int session_consume_subscribe(struct channel *ch,
					    const struct subscribe_spec *spec,
					    struct reply *r, struct error *err);
TIDE_MUST_USE int session_consume_unsubscribe(struct channel *ch, struct slice sid,
					      struct reply *r, struct error *err);

#define GET_QUEUES_MAX 64
struct get_spec {
	const struct slice *queues; /* the most urgent first; 1 to GET_QUEUES_MAX */
	unsigned queue_count;
	uint32_t max;
	int64_t wait_ms;
	uint32_t ack_timeout_ms; /* 0 = the queues' */
	bool is_auto_ack;
	struct slice match; /* see base/msg.h; data == NULL: any */
	const uint64_t *id; /* not NULL: this message alone, in whatever state it is */
	/* Of a topic: with a group, or from an offset of a partition without one. */
	struct slice group; /* data == NULL: none */
	struct position from;
	int64_t partition; /* -1: none */
	struct position offset;
};
TIDE_MUST_USE int session_consume_get(struct channel *ch, const struct get_spec *spec,
				      struct reply *r, struct error *err);

struct tag_range {
	uint64_t first, last; /* equal for a single tag */
};
enum settle {
	SETTLE_ACK,
	SETTLE_RETRY,
	SETTLE_REQUEUE, /* it was not begun: no failure */
	/* AMQP's requeue: a failure, if the queue was given a delivery limit. */
	SETTLE_RETURN,
	SETTLE_AFTER,
	SETTLE_BURY,
	SETTLE_DEAD,
	SETTLE_TOUCH,
};
struct settle_spec {
	enum settle how;
	int64_t ms; /* SETTLE_AFTER: the delay; SETTLE_TOUCH: 0 = as long as before */
	/* Of what is given back: the messages get the priority and the text first. */
	bool has_priority;
	uint8_t priority;
	struct slice reason; /* empty: none */
	const struct tag_range *ranges;
	size_t count;
	struct session_transaction *transaction; /* as in publish_demand */
};
/* Copy its ranges and its reason: mem_free of the ranges frees both. */
void session_settle_own(struct settle_spec *spec);
/* The channel holds messages. */
bool session_held_any(const struct channel *ch);
/* A tag of the channel that no message has: the number of one that needs no ack. */
uint64_t session_held_skip(struct channel *ch);
/* The channel has given out the tag, and it is not that of another message that it holds.
 * Messages of topics are not compared. */
bool session_held_was_given(const struct channel *ch, uint64_t tag, uint64_t id);
TIDE_MUST_USE int session_settle(struct channel *ch, const struct settle_spec *spec,
				 struct reply *r, struct error *err);

/* Requests to publish and to settle are kept from BEGIN on, and take place together.
 *
 * Without a name it is the channel's: all that the channel publishes and settles is part
 * of it. With a name it is the session's: what names it is part of it, on any channel. */
TIDE_MUST_USE int session_transaction_begin(struct channel *ch, struct slice name,
					    struct reply *r, struct error *err);
TIDE_MUST_USE int session_transaction_commit(struct channel *ch, struct slice name,
					     struct reply *r, struct error *err);
TIDE_MUST_USE int session_transaction_rollback(struct channel *ch, struct slice name,
					       struct reply *r, struct error *err);
/* The session's transaction of that name, until its COMMIT; NULL: there is none. */
struct session_transaction *session_transaction_find(struct session *s,
						     struct slice name);
/* A request that would have been part of it was refused: its COMMIT will be, too.
 * Harmless without a transaction. */
void session_transaction_refuse(struct channel *ch, const struct error *why);

#define PEEK_MAX 100
/* PEEK_ANY: not given, which are ready ones. */
enum peek_state { PEEK_ANY, PEEK_READY, PEEK_DELAYED, PEEK_UNACKED, PEEK_BURIED };
struct peek_spec {
	struct slice queue;
	enum peek_state state;
	uint64_t max;
	struct slice match; /* see base/msg.h; data == NULL: all */
	struct slice after; /* a place that an answer has named; likewise: the first */
	/* Of a topic. */
	int64_t partition; /* -1: not named */
	struct position from;
	bool is_newest; /* from the end on, backwards */
};
/* The members "size", and "payload" or "payload_base64". */
void session_peek_write_payload(struct json *j, const struct msg *m);
TIDE_MUST_USE int session_peek(struct queue *q, const struct peek_spec *spec,
			       struct reply *r, struct error *err);
struct redrive_spec {
	struct slice queue;
	uint64_t max;
	struct slice match; /* see base/msg.h; data == NULL: all */
	struct slice to;    /* "<exchange>/<key>"; data == NULL: where they died */
	bool is_routed;     /* without `to`: by the exchange that they came by */
};
TIDE_MUST_USE int session_redrive_start(struct session *s, struct queue *q,
					const struct redrive_spec *spec, struct reply *r,
					struct error *err);
/* Messages that a request means by what they have, and not by their ids. */
struct select_spec {
	struct slice match; /* data == NULL: all */
	bool is_dry;        /* count them, and change nothing */
};
struct purge_spec {
	struct slice queue; /* or a topic, like the next two: */
	struct position before;
	int64_t partition; /* -1: all */
	struct select_spec select;
};
TIDE_MUST_USE int session_purge(struct queue *q, const struct purge_spec *spec,
				struct reply *r, struct error *err);
struct kick_spec {
	struct slice queue;
	uint64_t max; /* of these when none is buried, also delayed ones; 0: all buried */
	uint64_t id;  /* of the only one; 0: any */
	struct select_spec select;
};
TIDE_MUST_USE int session_queue_kick(struct queue *q, const struct kick_spec *spec,
				     struct reply *r, struct error *err);

/* Messages by their ids, in any state, or by what they have. The counts are of those that
 * were there. */
struct id_list {
	const uint64_t *items;
	unsigned count;
};
struct by_id_spec {
	struct slice queue;
	struct id_list ids;
	struct select_spec select; /* without ids */
	int64_t delay_ms;          /* RESCHEDULE; -1: each is due when it was */
	int64_t priority;          /* likewise; -1: each keeps its own */
};
int session_by_id_find(struct queue *q, const struct kick_spec *spec, struct reply *r);
/* For session_consume_get. */
TIDE_MUST_USE int session_by_id_get(struct channel *ch, const struct get_spec *get,
				    struct reply *r, struct error *err);
TIDE_MUST_USE int session_by_id_remove(struct queue *q, const struct by_id_spec *spec,
				       struct reply *r, struct error *err);
TIDE_MUST_USE int session_by_id_reschedule(struct queue *q, const struct by_id_spec *spec,
					   struct reply *r, struct error *err);

#define TOPIC_PARTITIONS_MAX 64
/* A group of a topic. */
struct group_spec {
	struct slice topic, group;
	struct position to; /* SEEK, like the next one */
	int64_t partition;  /* -1: all */
	unsigned is_resume; /* PAUSE and RESUME, like the next one */
	int64_t for_ms;     /* 0: until it is resumed */
};
TIDE_MUST_USE int session_group_pause(struct queue *topic, const struct group_spec *spec,
				      struct reply *r, struct error *err);
TIDE_MUST_USE int session_group_seek(struct queue *topic, const struct group_spec *spec,
				     struct reply *r, struct error *err);
TIDE_MUST_USE int session_group_delete(struct queue *topic, const struct group_spec *spec,
				       struct reply *r, struct error *err);

enum pause_which { PAUSE_IN, PAUSE_OUT, PAUSE_BOTH }; /* publishes, deliveries */
struct pause_spec {
	struct slice queue;
	enum pause_which which;
	unsigned is_resume;
	int64_t for_ms; /* 0: until it is resumed */
};
int session_pause(struct queue *q, const struct pause_spec *spec, struct reply *r);

struct lock_request {
	struct slice name;
	int64_t ttl_ms; /* 0: 30 s; with a token: as before */
	int64_t wait_ms;
	bool is_shared;
	uint64_t token; /* 0: a new one */
};
TIDE_MUST_USE int session_lock_take(struct channel *ch,
				    const struct lock_request *request, struct reply *r,
				    struct error *err);
/* By its name and its token. */
TIDE_MUST_USE int session_lock_release(struct session *s, const struct lock_request *lock,
				       struct reply *r, struct error *err);
TIDE_MUST_USE int session_lock_check(struct session *s, const struct lock_request *lock,
				     struct reply *r, struct error *err);

enum list_what {
	LIST_EXCHANGES,
	LIST_QUEUES,
	LIST_TOPICS,
	LIST_GROUPS,
	LIST_BINDINGS,
	LIST_CONSUMERS,
	LIST_CONNECTIONS,
	LIST_LOCKS,
	LIST_VHOSTS,
	LIST_BROKERS,
};
enum list_direction { LIST_AS_USUAL, LIST_ASCENDING, LIST_DESCENDING };
/* By which what is listed may be chosen. */
enum list_member {
	LIST_BY_EXCHANGE, /* of bindings, as the two that follow */
	LIST_BY_DESTINATION,
	LIST_BY_TO,    /* "exchange", "queue", "topic" */
	LIST_BY_QUEUE, /* of consumers, like the next one */
	LIST_BY_GROUP, /* of a topic */
	LIST_MEMBERS,
};
struct list_spec {
	enum list_what what;
	struct slice sort;  /* "name", "ready", …; data == NULL: as it is by default */
	struct slice match; /* a part of a name; data == NULL: all */
	enum list_direction direction;
	uint64_t offset;
	uint64_t max; /* 0: all */
	/* Only things whose member of that name is this; data == NULL: any. */
	struct slice only[LIST_MEMBERS];
};
/* The answer has in `count` how many there are, whatever the page. LIST history is a
 * document of another kind, which is no page. */
TIDE_MUST_USE int session_list(struct session *s, const struct list_spec *spec,
			       struct reply *r, struct error *err);
/* The broker at this moment: an object with the columns of LIST history. */
/* LIST history: of the broker, of a queue or topic, or of a group of it. */
TIDE_MUST_USE int session_report_history(struct session *s, struct queue *q,
					 const struct list_spec *spec, struct reply *r,
					 struct error *err);
TIDE_MUST_USE int session_report_sample(struct session *s, struct reply *r,
					struct error *err);
/* Of what STATS is; in the order of the words before a name. */
enum stats_kind {
	STATS_EXCHANGE,
	STATS_QUEUE,
	STATS_TOPIC,
	STATS_ANY, /* a queue or a topic */
};
struct stats_spec {
	enum stats_kind kind;
	struct slice name; /* empty: the default exchange; else the broker */
};
TIDE_MUST_USE int session_report_stats(struct session *s, struct queue *q,
				       const struct stats_spec *spec, struct reply *r,
				       struct error *err);
/* The reply comes when the rules are active, or in the shadow. The session may end
 * before: the change goes on. */
TIDE_MUST_USE int session_rules_reload(struct session *s, struct reply *r,
				       struct error *err);
TIDE_MUST_USE int session_rules_status(struct session *s, struct reply *r,
				       struct error *err);
struct retry_spec {
	struct slice name;          /* of the retry script */
	const struct args *options; /* of the script, perhaps as "retry.base" */
	/* As in DECLARE queue; data == NULL: by default. */
	struct slice delivery_limit, ack_timeout;
	unsigned reason;       /* nack, timeout, gone */
	uint64_t failures_max; /* where it stops if the script does not */
};
TIDE_MUST_USE int session_rules_simulate(struct session *s, const struct retry_spec *spec,
					 struct reply *r, struct error *err);
/* The answer that a login or an access would get, as a dry run. Slices without data:
 * not given. No password of the table is verified. */
struct simulate_login {
	struct slice user, password, vhost, name, address, certificate;
	unsigned protocol; /* line, stomp, amqp, http */
	bool is_tls, is_local;
};
TIDE_MUST_USE int session_simulate_login(struct session *s,
					 const struct simulate_login *what,
					 struct reply *r, struct error *err);
/* The terms that policies would make of a DECLARE. */
struct simulate_declare {
	enum define_kind kind;
	struct slice name, type; /* the type is of an exchange */
	struct slice vhost;      /* without data: the session's */
	struct slice user;       /* empty: nobody */
	const struct args *args;
};
TIDE_MUST_USE int session_simulate_declare(struct session *s,
					   const struct simulate_declare *what,
					   struct reply *r, struct error *err);
enum simulate_action { SIMULATE_CONFIGURE, SIMULATE_WRITE, SIMULATE_READ };
struct simulate_access {
	struct slice user, vhost, address, name;
	enum simulate_action action;
	unsigned kind; /* exchange, queue, topic, lock */
};
TIDE_MUST_USE int session_simulate_access(struct session *s,
					  const struct simulate_access *what,
					  struct reply *r, struct error *err);
TIDE_MUST_USE int session_rules_log(struct session *s, struct reply *r,
				    struct error *err);
/* The parameters of requests about rules. */
struct rules_spec {
	struct slice name; /* of a directory, a script, a generation or a file */
	struct slice text, vhost;
	double share;       /* of the publishes; 0: the default */
	struct slice apply; /* "key", "h:<name>": of the values of it, and it counts */
	uint64_t max;
	bool has_source;
	bool is_exclusive; /* the shadow ends with the session */
};
TIDE_MUST_USE int session_rules_shadow(struct session *s, const struct rules_spec *spec,
				       struct reply *r, struct error *err);
TIDE_MUST_USE int session_rules_shadow_status(struct session *s, struct reply *r,
					      struct error *err);
TIDE_MUST_USE int session_rules_shadow_promote(struct session *s, struct reply *r,
					       struct error *err);
TIDE_MUST_USE int session_rules_shadow_drop(struct session *s, struct reply *r,
					    struct error *err);
#define SESSION_RECENT_MAX 1024
TIDE_MUST_USE int session_rules_recent(struct session *s, size_t max, struct reply *r,
				       struct error *err);
TIDE_MUST_USE int session_rules_replay(struct session *s, struct slice dir,
				       struct reply *r, struct error *err);
/* The active scripts of a name, or "kind/name", in an array; their source is for
 * administrators. */
TIDE_MUST_USE int session_rules_show(struct session *s, const struct rules_spec *spec,
				     struct reply *r, struct error *err);
/* The values of a line of Lua in the active generation; nothing of it remains. */
TIDE_MUST_USE int session_rules_evaluate(struct session *s, struct slice text,
					 struct reply *r, struct error *err);
/* The files of a kept generation, by their paths; "active": of the active one. */
TIDE_MUST_USE int session_rules_files(struct session *s, struct slice hash,
				      struct reply *r, struct error *err);
struct rules_file {
	struct slice path, text;
};
/* Write a rules directory for the shadow and the replay, and check it. */
TIDE_MUST_USE int session_rules_upload(struct session *s, const struct rules_file *files,
				       size_t count, struct reply *r, struct error *err);
/* The same in parts: whether it may be (a document), text that is appended to a file of
 * the session's upload, then the upload of all. An error drops what has come. */
TIDE_MUST_USE int session_push_begin(struct session *s, struct reply *r,
				     struct error *err);
TIDE_MUST_USE int session_push_part(struct session *s, const struct rules_spec *spec,
				    struct reply *r, struct error *err);
TIDE_MUST_USE int session_push_upload(struct session *s, struct reply *r,
				      struct error *err);
/* Promote, and write the files into the rules directory. */
TIDE_MUST_USE int session_push_install(struct session *s, struct reply *r,
				       struct error *err);
/* An empty hash: the generation before the active one. */
TIDE_MUST_USE int session_rules_rollback(struct session *s, struct slice hash,
					 struct reply *r, struct error *err);
/* The user and the place of a session, as a document. */
TIDE_MUST_USE int session_whoami(struct session *s, struct reply *r, struct error *err);
struct operate_spec {
	uint64_t number;
	unsigned is_on;
};
/* Close the connection of that number, which may be this one. */
TIDE_MUST_USE int session_operate_kill(struct session *s, const struct operate_spec *spec,
				       struct reply *r, struct error *err);
/* Take no publishes from now on, or take them again. */
TIDE_MUST_USE int session_operate_drain(struct session *s,
					const struct operate_spec *spec, struct reply *r,
					struct error *err);
enum user_edit {
	USER_EDIT_ADD,
	USER_EDIT_PASSWORD,
	USER_EDIT_DELETE,
	USER_EDIT_GRANT,
	USER_EDIT_REVOKE,
	USER_EDIT_SET,
};
#define USER_SPEC_LIMITS 4
#define USER_LIMIT_AS_IT_IS UINT64_MAX
/* Slices without data: not given. */
struct user_spec {
	enum user_edit edit;
	struct slice name, password;
	struct slice tags; /* "admin,monitor" */
	struct slice vhost, configure, write, read;
	uint64_t limits[USER_SPEC_LIMITS]; /* as user_limit_name counts them; 0: none */
};
TIDE_MUST_USE int session_user_edit(struct session *s, const struct user_spec *spec,
				    struct reply *r, struct error *err);
TIDE_MUST_USE int session_user_list(struct session *s, struct reply *r,
				    struct error *err);
/* SHARED: what scripts keep in tide.shared, and their counters and buckets. */
enum shared_of { SESSION_SHARED_KEYS, SESSION_SHARED_COUNTERS, SESSION_SHARED_BUCKETS };
enum shared_as {
	SESSION_SHARED_AS_IT_IS, /* the type that the entry has; of a new one: a text */
	SESSION_SHARED_STRING,
	SESSION_SHARED_INTEGER,
	SESSION_SHARED_NUMBER,
	SESSION_SHARED_BOOLEAN,
};
struct shared_spec {
	enum shared_of of;
	struct slice key;    /* or, of a list and a clear, with what it begins */
	struct slice value;  /* as a text */
	enum shared_as type; /* of the value */
	int64_t ttl_ms;      /* 0: it stays */
	uint64_t cursor;     /* of the last answer; 0: from the start */
};
/* A step: shared_scan. */
TIDE_MUST_USE int session_shared_list(struct session *s, const struct shared_spec *spec,
				      struct reply *r, struct error *err);
TIDE_MUST_USE int session_shared_get(struct session *s, const struct shared_spec *spec,
				     struct reply *r, struct error *err);
TIDE_MUST_USE int session_shared_set(struct session *s, const struct shared_spec *spec,
				     struct reply *r, struct error *err);
TIDE_MUST_USE int session_shared_delete(struct session *s, const struct shared_spec *spec,
					struct reply *r, struct error *err);
/* A step likewise. */
TIDE_MUST_USE int session_shared_clear(struct session *s, const struct shared_spec *spec,
				       struct reply *r, struct error *err);

/* Follow messages: session_ops.on_event tells what happens to them ("trace", a JSON
 * object), and that the trace has ended. It ends with the channel. What the spec leaves
 * out has a default: any key (data == NULL), all publishes (0), a minute (0). */
TIDE_MUST_USE int session_trace_start(struct channel *ch, const struct trace_spec *spec,
				      struct reply *r, struct error *err);
TIDE_MUST_USE int session_explain(struct session *s, const struct publish_spec *spec,
				  struct reply *r, struct error *err);
