/* event.h: what happens in the broker, told as messages: one row for each kind.
 *
 * An event goes to the exchange `$events` of the default vhost, by its name as the key.
 * While nothing is bound there, nothing is made. Whoever tells is not held up: events
 * wait in a bounded list until session/service_events.c publishes them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"

struct broker;
struct exchange;
struct msg;

#define EVENT_EXCHANGE "$events"
#define EVENT_FIELDS_MAX 6
#define EVENTS_MAX 1024 /* that wait; more are counted: `events.lost` */

/* clang-format off */

/* ROW(name of the enumerator, key, fields, when). A field with a # is a number. */
#define EVENTS(ROW) \
ROW(BROKER_STARTED, "broker.started", "#node", "The broker has started, or has taken the store over from another, and serves.") \
ROW(CONNECTION_OPENED, "connection.opened", "#connection vhost user name address protocol", "A client has entered a vhost: with its login, or with its first request. A TCP connection that asks nothing is none, and one request over HTTP may be all of one.") \
ROW(CONNECTION_CLOSED, "connection.closed", "#connection vhost user name address protocol", "That connection has ended.") \
ROW(LOGIN_REFUSED, "login.refused", "user name address protocol reason", "A login was refused.") \
ROW(CONSUMER_STARTED, "consumer.started", "vhost queue #connection consumer user", "A subscription has begun, of a queue or a topic. A `GET` is none.") \
ROW(CONSUMER_ENDED, "consumer.ended", "vhost queue #connection consumer user", "That subscription has ended.") \
ROW(VHOST_DECLARED, "vhost.declared", "vhost", "There is a new vhost.") \
ROW(VHOST_DELETED, "vhost.deleted", "vhost", "A vhost is no more.") \
ROW(QUEUE_DECLARED, "queue.declared", "vhost queue user", "There is a new queue.") \
ROW(QUEUE_CHANGED, "queue.changed", "vhost queue changes", "It has other options, by an update or by a policy.") \
ROW(QUEUE_DELETED, "queue.deleted", "vhost queue", "A queue is no more: deleted, expired, left by its last consumer or its connection.") \
ROW(QUEUE_FULL, "queue.full", "vhost queue reason", "A queue that was not full has refused a message, at its `max-length` or `max-bytes`.") \
ROW(QUEUE_OPEN, "queue.open", "vhost queue", "That queue has taken a message again.") \
ROW(QUEUE_PAUSED, "queue.paused", "vhost queue direction until", "`PAUSE`. `until` is the time in milliseconds since 1970, and is missing if there is no end.") \
ROW(QUEUE_RESUMED, "queue.resumed", "vhost queue direction", "`RESUME`, or the time is over.") \
ROW(TOPIC_DECLARED, "topic.declared", "vhost topic user", "There is a new topic.") \
ROW(TOPIC_CHANGED, "topic.changed", "vhost topic changes", "It has other options.") \
ROW(TOPIC_DELETED, "topic.deleted", "vhost topic", "A topic is no more.") \
ROW(EXCHANGE_DECLARED, "exchange.declared", "vhost exchange user", "There is a new exchange.") \
ROW(EXCHANGE_CHANGED, "exchange.changed", "vhost exchange changes", "It has other options.") \
ROW(EXCHANGE_DELETED, "exchange.deleted", "vhost exchange", "An exchange is no more.") \
ROW(BINDING_DECLARED, "binding.declared", "vhost exchange to destination pattern", "There is a new binding; `to` is queue, topic or exchange.") \
ROW(BINDING_DELETED, "binding.deleted", "vhost exchange to destination pattern", "A binding is no more.") \
ROW(USER_DECLARED, "user.declared", "user by", "`USER add`. `by` is the connection that asked for it.") \
ROW(USER_CHANGED, "user.changed", "user change by", "`USER passwd`, `grant`, `revoke` or `set`.") \
ROW(USER_DELETED, "user.deleted", "user by", "`USER delete`.") \
ROW(RULES_ACTIVATED, "rules.activated", "generation origin by", "Other rules decide from now on. `generation` is the hash that `RULES status` shows.") \
ROW(RULES_REFUSED, "rules.refused", "reason", "Rules were refused; the active ones stay.") \
ROW(ALARM_BEGAN, "alarm.began", "code reason", "`/health/ready` has a reason or a warning of this code, which it did not have before. Looked at every few seconds.") \
ROW(ALARM_ENDED, "alarm.ended", "code", "It has none of this code any more.") \
ROW(EVENTS_LOST, "events.lost", "#count", "More happened at once than is kept for this stream; so many are not in it.")

/* clang-format on */

enum event_name {
#define ENUMERATOR(name, key, fields, when) EVENT_##name,
	EVENTS(ENUMERATOR)
#undef ENUMERATOR
		EVENT_KINDS
};

struct event_message {
	STAILQ_ENTRY(event_message) link;
	struct msg *msg; /* without an id yet */
	bool is_alarm;   /* leaves while publishers are held back, too */
};

struct events {
	struct exchange *exchange; /* NULL: nobody has named it yet */
	STAILQ_HEAD(event_list, event_message) waiting;
	unsigned count;
	uint64_t lost; /* that nobody was told of yet */
};

void events_init(struct events *e);
void events_deinit(struct events *e);
/* Is something bound to the exchange? */
bool event_is_wanted(const struct broker *b);
/* Tell it, with the values of the row's fields in their order; an empty one is left out.
 * Costs next to nothing when nobody listens. */
void event_tell(struct broker *b, enum event_name kind, const struct slice *values);
#define EVENT_TELL(broker, kind, ...) \
	event_tell(broker, kind, (const struct slice[EVENT_FIELDS_MAX]){ __VA_ARGS__ })
/* Room for event_number. */
#define EVENT_NUMBER_MAX 24
struct slice event_number(uint64_t n, char room[EVENT_NUMBER_MAX]);
/* The table of the documents. */
void event_document(struct buf *out);
