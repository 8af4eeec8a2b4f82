/* Messages of queues and topics: a look at them, and GET with receipts. */
#include <jansson.h>

#include "base/duration.h"
#include "http_api.h"
#include "http_conn.h"
#include "http_engine.h"
#include "http_lease.h"
#include "http_request_private.h"

#define QUEUE "/api/vhosts/{vhost}/queues/{queue}"
#define TOPIC "/api/vhosts/{vhost}/topics/{queue}"
#define GET_MAX 1000
#define PEEK_MAX 100
#define PARTITIONS_MAX 64
#define WAIT_MAX_MS (3600 * 1000)
#define TOUCH_MIN_MS 10
#define TOUCH_MAX_MS (INT64_C(24) * 3600 * 1000)

static struct slice queue_of(const struct http_request *q)
{
	return http_request_path(q, "queue");
}

static struct http_leases *leases_of(const struct http_request *q)
{
	return q->conn->engine->leases;
}

/* ---- a look ---- */

static int peek(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits max = { 1, PEEK_MAX };
	struct peek_spec spec = { .queue = queue_of(q), .partition = -1 };

	spec.max = (unsigned)http_request_uint(q, "max", max, PEEK_MAX);
	spec.has_state = http_request_text(q, "state").data;
	/* In the order of enum peek_state. */
	spec.state = (enum peek_state)http_request_choice(
		q, "state", "ready, delayed, unacked or buried");
	spec.match = http_request_text(q, "match");
	spec.after = http_request_text(q, "after");
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_peek(http_request_session(q), &spec, r, err);
}

static int peek_topic(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits max = { 1, PEEK_MAX };
	struct peek_spec spec = { .queue = queue_of(q) };

	spec.max = (unsigned)http_request_uint(q, "max", max, PEEK_MAX);
	spec.partition = (int)http_request_int(q, "partition", 0, PARTITIONS_MAX - 1, -1);
	spec.from = http_api_position(q, "offset");
	spec.match = http_request_text(q, "match");
	if (http_request_check(q, err) < 0)
		return err->code;
	return session_peek(http_request_session(q), &spec, r, err);
}

static int find(struct http_request *q, struct reply *r, struct error *err)
{
	uint64_t id = http_api_id(q);

	if (http_request_check(q, err) < 0)
		return err->code;
	return session_by_id_find(http_request_session(q), queue_of(q), id, r, err);
}

static int with_id(struct http_request *q, struct by_id_spec *spec,
		   int run(struct session *s, const struct by_id_spec *spec,
			   struct reply *r, struct error *err),
		   struct reply *r, struct error *err)
{
	uint64_t id = http_api_id(q);

	spec->queue = queue_of(q);
	spec->ids = &id;
	spec->count = 1;
	if (http_request_check(q, err) < 0)
		return err->code;
	return run(http_request_session(q), spec, r, err);
}

static int delete (struct http_request *q, struct reply *r, struct error *err)
{
	struct by_id_spec spec = { 0 };

	return with_id(q, &spec, session_by_id_remove, r, err);
}

static int kick(struct http_request *q, struct reply *r, struct error *err)
{
	struct by_id_spec spec = { 0 };

	return with_id(q, &spec, session_by_id_kick, r, err);
}

static int reschedule(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits delay = { 0, DURATION_MAX_MS };
	struct by_id_spec spec = { .delay_ms = http_request_duration(q, "delay", delay) };

	http_api_need(q, "delay", "a duration; 0 makes the message ready");
	return with_id(q, &spec, session_by_id_reschedule, r, err);
}

/* ---- GET and what follows ---- */

static int get(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits max = { 1, GET_MAX }, wait = { 0, WAIT_MAX_MS },
				   lease = { MSG_ACK_TIMEOUT_MIN_MS,
					     MSG_ACK_TIMEOUT_MAX_MS };
	struct slice queue = queue_of(q);
	struct get_spec spec = { .queues = &queue, .queue_count = 1 };

	spec.max = (uint32_t)http_request_uint(q, "max", max, 1);
	spec.wait_ms = http_request_duration(q, "wait", wait);
	spec.ack_timeout_ms = (uint32_t)http_request_duration(q, "ack-timeout", lease);
	spec.is_auto_ack = http_request_choice(q, "ack", "manual or auto");
	spec.match = http_request_text(q, "match");
	spec.group = http_request_name(q, "group");
	spec.from = http_api_position(q, "from");
	spec.partition = http_request_int(q, "partition", 0, PARTITIONS_MAX - 1, -1);
	spec.offset = http_api_position(q, "offset");
	if (http_request_check(q, err) < 0)
		return err->code;
	return http_lease_get(leases_of(q), q, &spec, r, err);
}

/* Of the member `receipts`: an array of strings. */
static int read_receipts(const struct http_request *q, struct slice *out, size_t *count,
			 struct error *err)
{
	const json_t *list = json_object_get(http_request_json(q), "receipts");

	*count = json_array_size(list);
	if (*count == 0 || *count > HTTP_LEASE_RECEIPTS_MAX)
		return error_set(err, TIDE_ESYNTAX,
				 "receipts: expected an array of 1 to %d receipts",
				 HTTP_LEASE_RECEIPTS_MAX);
	for (size_t i = 0; i < *count; i++) {
		const json_t *item = json_array_get(list, i);

		if (!json_is_string(item))
			return error_set(err, TIDE_ESYNTAX,
					 "receipts: expected an array of strings");
		out[i] = (struct slice){ json_string_value(item),
					 json_string_length(item) };
	}
	return TIDE_OK;
}

static int settle(struct http_request *q, struct http_settle *what, struct reply *r,
		  struct error *err)
{
	struct slice receipts[HTTP_LEASE_RECEIPTS_MAX];

	what->queue = queue_of(q);
	what->receipts = receipts;
	if (http_request_check(q, err) < 0 ||
	    read_receipts(q, receipts, &what->count, err) < 0)
		return err->code;
	return http_lease_settle(leases_of(q), q, what, r, err);
}

static int ack(struct http_request *q, struct reply *r, struct error *err)
{
	struct http_settle what = { .spec.how = SETTLE_ACK };

	return settle(q, &what, r, err);
}

static int nack(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits delay = { 0, DURATION_MAX_MS },
				   priority = { 0, MSG_PRIORITY_MAX };
	bool is_dead = http_request_flag(q, "dead"),
	     is_bury = http_request_flag(q, "bury"),
	     is_requeue = http_request_flag(q, "requeue"),
	     is_delayed = http_request_text(q, "delay").data != NULL;
	struct http_settle what = {
		.spec = { .ms = http_request_duration(q, "delay", delay),
			  .has_priority = http_request_text(q, "priority").data != NULL,
			  .priority =
				  (uint8_t)http_request_uint(q, "priority", priority, 0),
			  .reason = http_request_text(q, "reason") },
	};

	if (http_request_check(q, err) < 0)
		return err->code;
	if (is_dead + is_bury + is_requeue + is_delayed > 1)
		return error_set(err, TIDE_ESYNTAX,
				 "nack takes only one of delay, bury, dead and requeue; "
				 "priority and reason may stand beside it");
	what.spec.how = is_dead      ? SETTLE_DEAD
			: is_bury    ? SETTLE_BURY
			: is_requeue ? SETTLE_REQUEUE
			: is_delayed ? SETTLE_AFTER
				     : SETTLE_RETRY;
	return settle(q, &what, r, err);
}

static int touch(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits limits = { TOUCH_MIN_MS, TOUCH_MAX_MS };
	struct http_settle what = {
		.spec = { .how = SETTLE_TOUCH,
			  .ms = http_request_duration(q, "for", limits) },
	};

	return settle(q, &what, r, err);
}

#define NACK "receipts delay dead bury requeue priority reason"

const struct http_route http_api_messages_routes[] = {
	{ "GET", QUEUE "/messages", "state max match after", 0, peek },
	{ "GET", QUEUE "/messages/{id}", NULL, 0, find },
	{ "DELETE", QUEUE "/messages/{id}", NULL, 0, delete },
	{ "POST", QUEUE "/messages/{id}/kick", NULL, 0, kick },
	{ "POST", QUEUE "/messages/{id}/reschedule", "delay", 0, reschedule },
	{ "POST", QUEUE "/get", "max wait ack-timeout match ack", 0, get },
	{ "POST", QUEUE "/ack", "receipts", 0, ack },
	{ "POST", QUEUE "/nack", NACK, 0, nack },
	{ "POST", QUEUE "/touch", "receipts for", 0, touch },
	{ "GET", TOPIC "/messages", "partition offset max match", 0, peek_topic },
	{ "POST", TOPIC "/get", "max wait ack-timeout ack group from partition offset", 0,
	  get },
	{ "POST", TOPIC "/ack", "receipts", 0, ack },
	{ "POST", TOPIC "/nack", NACK, 0, nack },
	{ "POST", TOPIC "/touch", "receipts for", 0, touch },
	{ 0 },
};
