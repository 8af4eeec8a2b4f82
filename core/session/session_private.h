/* session_private.h: a session as its own files know it. */
#pragma once

#include "base/json.h"
#include "access/subject.h"
#include "broker/fate.h"
#include "broker/queue.h"
#include "channel.h"
#include "service.h"
#include "session.h"

struct topic_group;

struct session {
	TAILQ_ENTRY(session) link;
	struct service *service;
	struct broker *broker;
	struct vhost *vhost;
	const struct session_ops *ops;
	void *ctx;
	uint64_t number;
	char *name;                   /* from HELLO; NULL when none */
	struct login_job *logging_in; /* NULL: it does not */
	bool is_shut_out;             /* see session_is_shut_out */
	bool has_entered;             /* connect/ has been asked about it */
	bool is_told;    /* by EVENT_CONNECTION_OPENED, if somebody listens */
	bool is_visitor; /* in no vhost: that of its name is of another cell */
	char *unwelcome; /* why connect/ refuses it, which has not said who it is */
	bool is_founder; /* it adds the first user */
	char *user;      /* its user's name; without one that from HELLO, which nobody has
			  * checked */
	size_t user_len;
	struct subject subject;   /* what it may do */
	struct channel *channels; /* uthash by number */
	struct channel zero;
	unsigned channel_count;
	unsigned subscription_count; /* of all its channels */
	unsigned pending;            /* replies that have not left */
	unsigned documents;          /* of these, those that may be large */
	unsigned reads;      /* GETs of topics without a group that are not answered */
	unsigned written;    /* documents that are being written */
	bool wants_document; /* the next request is for one: it waits for them */
	size_t kept_bytes; /* of answers that wait for an earlier one of their channel */
	size_t standing_bytes;       /* of answers that the peer has not taken */
	struct settle_job *settling; /* a request that goes on; NULL for none */
	struct session_transaction *committing; /* a COMMIT likewise */
	struct transaction_list named;          /* open ones that have a name */
	/* Open on its channels. It goes on when publishers are held back: what it keeps
	 * has a limit of its own, and is given back when they end. */
	unsigned transactions;
	/* Of a payload on its way: session_receive.c. */
	size_t receiving_bytes, missing_bytes;
	TAILQ_ENTRY(session) receiving_link;
	bool is_in_line, has_place;
	/* The allowances of its user and its address; NULL: no user has logged in,
	 * and addresses have no limits. */
	struct allowance *of_user, *of_address;
	struct allowance *of_connection; /* of a script of connect/; NULL: none */
	bool is_metered;                 /* one of them limits publishes */
	bool is_throttled;               /* see session_allowance_throttle */
	struct heap_node throttle_node;  /* while it is held for that; by mono_ms */
	bool has_published;
	bool is_never_held; /* for what it publishes */
	bool is_closed;
	bool has_left;  /* in order */
	bool is_broken; /* its connection is */
	bool is_beside; /* its channel is that of many clients: session_beside.c */
	struct queue_list exclusive;
	/* The exchange that was published to last, and the message that was prepared
	 * for it: the look-up and the permission need no repetition, as long as the
	 * version is the same; 0: there is none. */
	struct exchange *exchange;
	uint64_t exchange_version;
	bool may_write_all;            /* through the default exchange; or else */
	struct buf written_key;        /* this queue, the last one */
	const struct msg *prepared;    /* NULL once it is published */
	struct session_upload *upload; /* rules that come in parts; NULL: none */
	char *uploaded;                /* the directory of those that came last; NULL */
};

/* The session, for logs: "connection 7 'deploy' from 127.0.0.1:50412"; the name only
 * if it has one. */
#define SESSION_AUTHOR_MAX 400
void session_format_author(const struct session *s, char out[SESSION_AUTHOR_MAX]);

TIDE_MUST_USE int session_set_vhost(struct session *s, struct slice name,
				    struct error *err);
/* The user of its publishes: MSG_USER_MAX bytes at most. */
void session_set_user(struct session *s, struct slice user);
/* May the session go on with the payload that it has begun? */
bool session_receive_may_go_on(const struct session *s);
/* Publishers are no longer held back. */
void session_receive_resume(struct service *service);
/* From now on it is this user. */
void session_login_as(struct session *s, struct user *u);
/* The session's allowances. Of its user: a connection more, with its channels;
 * TIDE_ELIMIT, and it is nobody's. The user that it was before has one less. */
TIDE_MUST_USE int session_allowance_login(struct session *s, const struct user *u,
					  struct error *err);
void session_allowance_logout(struct session *s);
/* Limits of this connection alone; NULL: none. */
void session_allowance_limit(struct session *s, const struct user_limits *limits);
/* A channel more, or less. */
TIDE_MUST_USE int session_allowance_open(struct session *s, struct error *err);
void session_allowance_close(struct session *s);
/* For a session that is_metered: it may publish now, and has. */
TIDE_MUST_USE int session_allowance_publish(struct session *s, size_t bytes,
					    struct error *err);
/* Sessions that were held for a rate go on. */
void session_allowance_turn(struct service *service);
/* When that is, wall clock; 0: never. */
int64_t session_allowance_due_ms(const struct service *service);
/* Limits have changed. */
void session_allowance_note(struct session *s);
/* TIDE_ENOTFOUND: "there is no queue 'jobs' in vhost '/'; vhost 'shop' has one". Another
 * vhost is named if the user may do something with what has that name there. */
int session_missing(const struct session *s, enum subject_kind kind, struct slice name,
		    struct error *err);
/* TIDE_ENOTFOUND, with the vhosts that the user may enter. */
int session_missing_vhost(const struct session *s, struct slice name, struct error *err);
/* The session ends: with it what it has uploaded, and the shadow that is its own. */
void session_push_leave(struct session *s);
/* The session ends while it logs in. */
void session_login_cancel(struct session *s);

/* Check a permission of the session's user: TIDE_EDENIED. Asked before the look-up,
 * so that a stranger does not learn which names there are. */
/* TIDE_EMISMATCH: the vhost is of a cell that another broker owns. */
TIDE_MUST_USE int session_check_cell(const struct session *s, struct slice vhost,
				     struct error *err);
TIDE_MUST_USE int session_access_check(struct session *s, enum user_action action,
				       enum subject_kind kind, struct slice name,
				       struct error *err);
/* Of a queue or a topic. */
TIDE_MUST_USE int session_access_check_queue(struct session *s, enum user_action action,
					     struct slice name, struct error *err);
/* To publish; an empty exchange is the default one. */
TIDE_MUST_USE int session_access_check_write(struct session *s, struct slice exchange,
					     struct slice key, struct error *err);
/* May its user be in that vhost? */
bool session_access_may_enter(const struct session *s, struct slice vhost);

/* Call when the permissions of its user may have changed. If he was deleted, its
 * connection is killed. Else subscriptions of what he may no longer read are
 * cancelled, GETs that wait for it are refused, and messages of it go back; a lock
 * that he may no longer have lapses. */
void session_recheck(struct session *s);

/* SUB and GET: a queue that is not there is made, if its vhost does that. */
TIDE_MUST_USE int session_queue_make(struct session *s, struct slice name,
				     struct error *err);
/* The queue, if this session may do that with it and it can be used. */
TIDE_MUST_USE int session_queue_usable(struct session *s, enum user_action action,
				       struct slice name, struct queue **out,
				       struct error *err);

/* For session_consume_get: the GET names this topic. */
TIDE_MUST_USE int session_pull_get(struct channel *ch, struct queue *topic,
				   const struct get_spec *spec, struct reply *r,
				   struct error *err);
/* Are there options that are for topics alone? */
bool session_topic_is_meant(const struct subscribe_spec *spec);
/* Check that the options of a SUB are for a topic, if it is one, or else for a queue. */
TIDE_MUST_USE int session_topic_check(const struct queue *q,
				      const struct subscribe_spec *spec,
				      struct error *err);
/* TIDE_ENOTFOUND: the topic has no such group. */
TIDE_MUST_USE int session_group_find(const struct queue *topic, struct slice name,
				     struct topic_group **out, struct error *err);
/* The topic has the partition, or none was named: it is below 0. */
TIDE_MUST_USE int session_topic_check_partition(const struct queue *q, int64_t partition,
						struct error *err);
/* The subscription, which is in the list of its topic, reads. */
void session_topic_join(struct subscription *sub, const struct subscribe_spec *spec);

/* A group of a topic, as an object. */
void session_group_write(const struct topic_group *g, struct json *j);
/* Each group of a topic, as an object. */
void session_group_write_all(struct topic *t, struct json *j);

/* The message of a publish that is not to take place, whoever may publish it. */
TIDE_MUST_USE int session_publish_make(struct session *s, const struct publish_spec *spec,
				       struct msg **out, struct error *err);

/* The exchange and the key of a message in a document. */
void session_peek_write_address(struct json *j, const struct msg *m);
/* The last members, and the end of the object.
 *
 * @param held  the entry, if its holder is shown; or NULL */
void session_peek_end(struct json *j, const struct msg *m, const struct entry *held);
TIDE_MUST_USE int session_peek_topic(struct queue *q, const struct peek_spec *spec,
				     struct reply *r, struct error *err);

/* An answer waits for an earlier one of its channel; it waits no longer. */
void session_answer_keep(struct session *s, size_t bytes);
void session_answer_give(struct session *s, size_t bytes);
/* The document of a reply grows: `counted` is what has been counted of it, at first 0. */
void session_answer_write(struct reply *r, size_t *counted);
/* Is the answer large enough, if it can end here? */
bool session_answer_is_enough(const struct reply *r);
/* The answer is written, or given up. */
void session_answer_written(struct reply *r, size_t counted);
/* Is the answer small, or do the others leave room for it? Else TIDE_EBUSY. */
TIDE_MUST_USE int session_answer_check(const struct reply *r, size_t counted,
				       struct error *err);

/* A PUB, ACK or NACK between BEGIN and COMMIT. */
TIDE_MUST_USE int session_transaction_publish(struct session_transaction *t,
					      struct msg *m, bool is_mandatory,
					      struct reply *r, struct error *err);
TIDE_MUST_USE int session_transaction_settle(struct session_transaction *t,
					     struct channel *ch,
					     const struct settle_spec *spec,
					     struct reply *r, struct error *err);
/* A request that would have been part of it was refused. */
void session_transaction_spoil(struct session_transaction *t, const struct error *why);
/* The channel ends: so does its transaction. */
void session_transaction_end(struct channel *ch);
/* Go on with the COMMITs that were left. */
void session_transaction_turn(struct service *service);

/* The session's user may perhaps do less now: traces that show more end. */
void session_trace_recheck(struct session *s);

/* Channel 0, then the others; NULL behind the last. */
static inline struct channel *session_next_channel(struct session *s,
						   const struct channel *ch)
{
	if (!ch)
		return &s->zero;
	return ch == &s->zero ? s->channels : ch->hh.next;
}
/* Acknowledge messages by their ids, unless another channel than that of the reply has
 * them. The ids are copied. on_acked may come before the call returns. */
struct by_id_ack {
	const uint64_t *ids;
	unsigned count;
	struct reply *reply;
	void (*on_acked)(void *ctx, uint64_t count, const struct error *err);
	void *ctx;
};
void session_by_id_ack(struct queue *q, const struct by_id_ack *what);
/* The option match= of a request: msg_match_init, and lua:. */
TIDE_MUST_USE int session_match_init(struct broker *b, struct msg_match *match,
				     struct slice option, struct error *err);
/* GET of a message that a search has found. */
struct by_id_try {
	uint64_t id;
	struct reply *reply;
	bool is_auto_ack;
	uint32_t ack_timeout_ms;
	/* The message was given out, and the reply is answered; or it was not to be had.
	 */
	void (*on_tried)(void *ctx, bool is_answered);
	void *ctx;
};
void session_by_id_try(struct queue *q, const struct by_id_try *what);
/* KICK of one message. */
int session_by_id_kick(struct queue *q, const struct kick_spec *spec, struct reply *r);
/* KICK and PURGE of those that match. */
TIDE_MUST_USE int session_kick_match(struct queue *q, const struct kick_spec *spec,
				     struct reply *r, struct error *err);
TIDE_MUST_USE int session_purge_match(struct queue *q, const struct select_spec *select,
				      struct reply *r, struct error *err);
/* A GET may take from it: it would be another consumer beside the active one. */
TIDE_MUST_USE int session_queue_check_get(const struct queue *q, struct error *err);

/* The cause by which a request fails a message; not of SETTLE_TOUCH. */
static inline enum fate_cause session_settle_cause(enum settle how)
{
	static const enum fate_cause causes[] = {
		[SETTLE_ACK] = FATE_ACKED,          [SETTLE_RETRY] = FATE_NACKED,
		[SETTLE_REQUEUE] = FATE_REQUEUED,   [SETTLE_RETURN] = FATE_REQUEUED,
		[SETTLE_AFTER] = FATE_NACKED_LATER, [SETTLE_BURY] = FATE_NACKED_BURY,
		[SETTLE_DEAD] = FATE_REJECTED,
	};

	return causes[how];
}
/* Go on with the ACKs and NACKs of many tags that were left. */
void session_settle_turn(struct service *service);
/* The session ends and has returned what it holds: the reply completes unseen. */
void session_settle_cancel(struct session *s);

/* Members that LIST and STATS both have of an exchange. */

struct exchange;

/* `type`, `durable`, `auto_delete` */
void session_write_exchange_kind(const struct exchange *x, struct json *j);
/* `script`, or why it is `unusable`; `options`; with policies also `declared`, `policy`
 */
void session_write_exchange_options(const struct exchange *x, struct json *j);

/* Members that LIST and STATS both have of a queue or a topic. */

/* "paused" says which directions are; the others when that ends, if it ends by itself. */
void session_write_pause(const struct queue *q, struct json *j);
