/* message_verbs.h: what the verbs of messages take: PUB, SUB, GET, NACK, TOUCH, HELLO.
 *
 * Each has its parameters in rows, as an operation has (operation.h). The line protocol
 * and HTTP read them with the same ranges and the same errors. */
#pragma once

#include "operation.h"

#define MESSAGE_VERBS_PREFETCH_MAX 65535
#define MESSAGE_VERBS_GET_MAX 1000

/* The rows, each list ended by one without a name. */
extern const struct parameter message_verbs_hello[];
extern const struct parameter message_verbs_open[];
extern const struct parameter message_verbs_publish[];
extern const struct parameter message_verbs_explain[];
extern const struct parameter message_verbs_subscribe[];
extern const struct parameter message_verbs_get[];
extern const struct parameter message_verbs_nack[];
extern const struct parameter message_verbs_touch[];

/* Where the parameters of any of them go. What has no default is as it was before. */
struct message_options {
	uint64_t max, prefetch, rank, id;
	uint64_t cell;                       /* UINT64_MAX: not given */
	uint64_t message_priority, expected; /* UINT64_MAX: not given */
	uint64_t is_durable;
	int64_t consumer_priority, partition;
	int64_t delay_ms, ttl_ms, ack_timeout_ms, wait_ms, for_ms, notify_lease_ms,
		heartbeat_ms;
	unsigned ack; /* 0: manual, 1: auto */
	bool is_must, is_exclusive, is_bury, is_dead, is_requeue;
	struct slice publish_id, payload, reason, match, group;
	struct slice user, password, vhost, name;
	struct position from, offset;
};

/* Each fills in what the options say, and leaves the words and tags to its caller. An
 * error is TIDE_ESYNTAX, or TIDE_ETOOLONG, with a sentence. */

/* @param rows    of PUB or EXPLAIN
 * @param demand  NULL: there is none */
TIDE_MUST_USE int message_verbs_read_publish(const struct parameter *rows,
					     const struct operation_request *q,
					     struct publish_spec *spec,
					     struct publish_demand *demand,
					     struct error *err);
TIDE_MUST_USE int message_verbs_read_subscribe(const struct operation_request *q,
					       struct subscribe_spec *spec,
					       struct error *err);
/* @param id  receives that of the message; NULL: it is not asked for */
TIDE_MUST_USE int message_verbs_read_get(const struct operation_request *q,
					 struct get_spec *spec, uint64_t *id,
					 struct error *err);
/* @param how  SETTLE_ACK, SETTLE_TOUCH; any other is a NACK, which says how */
TIDE_MUST_USE int message_verbs_read_settle(const struct operation_request *q,
					    enum settle how, struct settle_spec *spec,
					    struct error *err);
