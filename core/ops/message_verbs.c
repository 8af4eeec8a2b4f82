#include "message_verbs.h"

#include "base/duration.h"

#define HEARTBEAT_MIN_MS 1000
#define HOUR_MS (INT64_C(3600) * 1000)
#define PREFETCH_DEFAULT 100

/* clang-format off */
#define AT(field) .offset = offsetof(struct message_options, field)
#define UINT(name_, field, min_, max_, fallback_) \
	{ .name = name_, .type = PARAMETER_UINT, AT(field), .min = min_, .max = max_, .fallback = fallback_ }
#define INT(name_, field, min_, max_, fallback_) \
	{ .name = name_, .type = PARAMETER_INT, AT(field), .min = min_, .max = max_, .fallback = fallback_ }
#define DURATION(name_, field, min_, max_) \
	{ .name = name_, .type = PARAMETER_DURATION, AT(field), .min = min_, .max = max_ }
#define TEXT(name_, field) { .name = name_, .type = PARAMETER_TEXT, AT(field) }
#define NAME(name_, field) { .name = name_, .type = PARAMETER_NAME, AT(field) }
#define FLAG(name_, field) { .name = name_, .type = PARAMETER_FLAG, AT(field) }
#define POSITION(name_, field) { .name = name_, .type = PARAMETER_POSITION, AT(field) }

#define MESSAGE_PRIORITY { .name = "priority", .line = "pri", .type = PARAMETER_UINT, AT(message_priority), \
	.max = MSG_PRIORITY_MAX, .fallback = -1 }
#define DELAY DURATION("delay", delay_ms, 0, DURATION_MAX_MS)
#define ACK_TIMEOUT DURATION("ack-timeout", ack_timeout_ms, MSG_ACK_TIMEOUT_MIN_MS, MSG_ACK_TIMEOUT_MAX_MS)
#define ACK { .name = "ack", .type = PARAMETER_CHOICE, AT(ack), .what = "manual or auto" }
#define OF_A_MESSAGE MESSAGE_PRIORITY, DELAY, DURATION("ttl", ttl_ms, 1, DURATION_MAX_MS), TEXT("id", publish_id), ACK_TIMEOUT, \
	UINT("durable", is_durable, 0, 1, 1)
#define OF_A_TOPIC NAME("group", group), POSITION("from", from), INT("partition", partition, 0, TOPIC_PARTITIONS_MAX - 1, -1)
#define PREFETCH UINT("prefetch", prefetch, 1, MESSAGE_VERBS_PREFETCH_MAX, 0)

const struct parameter message_verbs_hello[] = {
	NAME("user", user), TEXT("pass", password), TEXT("vhost", vhost), NAME("name", name), UINT("cell", cell, 0, UINT32_MAX, UINT64_MAX),
	DURATION("heartbeat", heartbeat_ms, HEARTBEAT_MIN_MS, HOUR_MS), PREFETCH, { 0 },
};
const struct parameter message_verbs_open[] = { PREFETCH, { 0 } };
const struct parameter message_verbs_publish[] = {
	OF_A_MESSAGE, UINT("expect", expected, 0, INT64_MAX, -1), FLAG("must", is_must), { 0 },
};
const struct parameter message_verbs_explain[] = { OF_A_MESSAGE, TEXT("payload", payload), { 0 } };
const struct parameter message_verbs_subscribe[] = {
	UINT("prefetch", prefetch, 1, MESSAGE_VERBS_PREFETCH_MAX, PREFETCH_DEFAULT), ACK,
	INT("priority", consumer_priority, SUBSCRIBE_PRIORITY_MIN, SUBSCRIBE_PRIORITY_MAX, 0),
	UINT("rank", rank, 0, SUBSCRIBE_RANK_MAX, SUBSCRIBE_RANK_MAX),
	DURATION("notify-lease", notify_lease_ms, 10, 24 * HOUR_MS), ACK_TIMEOUT, FLAG("exclusive", is_exclusive), OF_A_TOPIC, { 0 },
};
const struct parameter message_verbs_get[] = {
	UINT("max", max, 1, MESSAGE_VERBS_GET_MAX, 1), DURATION("wait", wait_ms, 0, HOUR_MS), ACK,
	{ .name = "id", .type = PARAMETER_ID, .features = PARAMETER_LINE_ONLY, AT(id) },
	TEXT("match", match), ACK_TIMEOUT, OF_A_TOPIC, POSITION("offset", offset), { 0 },
};
const struct parameter message_verbs_nack[] = {
	DELAY, MESSAGE_PRIORITY, TEXT("reason", reason),
	FLAG("bury", is_bury), FLAG("dead", is_dead), FLAG("requeue", is_requeue), { 0 },
};
const struct parameter message_verbs_touch[] = { DURATION("for", for_ms, 10, 24 * HOUR_MS), { 0 } };
/* clang-format on */

int message_verbs_read_publish(const struct parameter *rows,
			       const struct operation_request *q,
			       struct publish_spec *spec, struct publish_demand *demand,
			       struct error *err)
{
	struct message_options o = { 0 };

	if (operation_read(rows, q, &o, err) < 0)
		return err->code;
	if (o.message_priority != UINT64_MAX)
		spec->priority = (uint8_t)o.message_priority;
	spec->delay_ms = o.delay_ms;
	spec->ttl_ms = o.ttl_ms;
	spec->ack_timeout_ms = (uint32_t)o.ack_timeout_ms;
	spec->is_transient = !o.is_durable;
	spec->dedupe_id = o.publish_id;
	if (demand) {
		demand->must = o.is_must;
		demand->has_expected = o.expected != UINT64_MAX;
		demand->expected = o.expected;
	} else {
		spec->payload = o.payload.data;
		spec->payload_len = o.payload.len;
	}
	if (!o.publish_id.data ||
	    (o.publish_id.len > 0 && o.publish_id.len <= MSG_DEDUPE_ID_MAX))
		return TIDE_OK;
	return error_set(err, o.publish_id.len ? TIDE_ETOOLONG : TIDE_ESYNTAX,
			 "id= has %zu bytes; expected 1-%d", o.publish_id.len,
			 MSG_DEDUPE_ID_MAX);
}

int message_verbs_read_subscribe(const struct operation_request *q,
				 struct subscribe_spec *spec, struct error *err)
{
	struct message_options o = { 0 };

	if (operation_read(message_verbs_subscribe, q, &o, err) < 0)
		return err->code;
	spec->prefetch = (uint32_t)o.prefetch;
	spec->is_auto_ack = o.ack;
	spec->is_exclusive = o.is_exclusive;
	spec->ack_timeout_ms = (uint32_t)o.ack_timeout_ms;
	spec->notify_lease_ms = o.notify_lease_ms;
	spec->rank = (uint32_t)o.rank;
	spec->priority = (int32_t)o.consumer_priority;
	spec->group = o.group;
	spec->from = o.from;
	spec->partition = o.partition;
	return TIDE_OK;
}

int message_verbs_read_get(const struct operation_request *q, struct get_spec *spec,
			   uint64_t *id, struct error *err)
{
	struct message_options o = { 0 };

	if (operation_read(message_verbs_get, q, &o, err) < 0)
		return err->code;
	spec->max = (uint32_t)o.max;
	spec->wait_ms = o.wait_ms;
	spec->is_auto_ack = o.ack;
	spec->ack_timeout_ms = (uint32_t)o.ack_timeout_ms;
	spec->match = o.match;
	spec->group = o.group;
	spec->from = o.from;
	spec->partition = o.partition;
	spec->offset = o.offset;
	if (id)
		*id = o.id;
	return TIDE_OK;
}

int message_verbs_read_settle(const struct operation_request *q, enum settle how,
			      struct settle_spec *spec, struct error *err)
{
	struct message_options o = { .delay_ms = -1 };
	const char *sign = q->is_line ? "=" : "";

	spec->how = how;
	if (how == SETTLE_ACK)
		return TIDE_OK;
	if (operation_read(how == SETTLE_TOUCH ? message_verbs_touch : message_verbs_nack,
			   q, &o, err) < 0)
		return err->code;
	spec->ms = how == SETTLE_TOUCH ? o.for_ms : o.delay_ms < 0 ? 0 : o.delay_ms;
	if (how == SETTLE_TOUCH)
		return TIDE_OK;
	spec->has_priority = o.message_priority != UINT64_MAX;
	spec->priority = spec->has_priority ? (uint8_t)o.message_priority : 0;
	spec->reason = o.reason;
	if (o.is_dead + o.is_bury + o.is_requeue + (o.delay_ms >= 0) > 1)
		return error_set(err, TIDE_ESYNTAX,
				 "%s takes only one of delay%s, bury, dead and requeue; "
				 "%s%s and reason%s may stand beside it",
				 q->is_line ? "NACK" : "nack", sign,
				 q->is_line ? "pri" : "priority", sign, sign);
	spec->how = o.is_dead         ? SETTLE_DEAD
		    : o.is_bury       ? SETTLE_BURY
		    : o.is_requeue    ? SETTLE_REQUEUE
		    : o.delay_ms >= 0 ? SETTLE_AFTER
				      : SETTLE_RETRY;
	return TIDE_OK;
}
