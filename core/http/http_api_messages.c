/* Messages over HTTP: publishing, and GET with receipts. */
#include <jansson.h>

#include "base/duration.h"
#include "http_batch.h"
#include "http_conn.h"
#include "http_engine.h"
#include "http_lease.h"
#include "http_message.h"
#include "http_request_private.h"

#define EXCHANGE "/api/vhosts/{vhost}/exchanges/{exchange}"
#define QUEUE "/api/vhosts/{vhost}/queues/{queue}"
#define TOPIC "/api/vhosts/{vhost}/topics/{queue}"
#define GET_MAX 1000
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

static struct position read_position(struct http_request *q, const char *name)
{
	struct slice text = http_request_text(q, name);
	struct position position = { 0 };

	if (q->rc == TIDE_OK && text.data)
		q->rc = position_parse(text, &position, &q->err);
	return position;
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
	spec.from = read_position(q, "from");
	spec.partition =
		http_request_int(q, "partition", 0, TOPIC_PARTITIONS_MAX - 1, -1);
	spec.offset = read_position(q, "offset");
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

/* ---- publishing ---- */

/* A client that gets an answer for each publish is not held back, but refused. */
static int check_blocked(struct http_request *q, struct error *err)
{
	if (!session_publish_is_blocked(http_request_session(q)))
		return TIDE_OK;
	return error_set(err, TIDE_EBUSY,
			 "publishers are held back, since memory or the store is full; "
			 "try again later");
}

static int publish_one(struct http_request *q, struct reply *r, struct error *err)
{
	struct session *s = http_request_session(q);
	struct http_message m;
	struct msg *msg;
	int rc = http_message_read(&m, http_request_json(q),
				   http_request_path(q, "exchange"), err);

	if (rc == TIDE_OK)
		rc = session_publish_prepare(s, &m.spec, &msg, err);
	if (rc == TIDE_OK)
		session_publish_take(s, msg, &m.demand, r);
	http_message_deinit(&m);
	return rc;
}

static int publish(struct http_request *q, struct reply *r, struct error *err)
{
	const json_t *body = http_request_json(q);

	if (check_blocked(q, err) < 0)
		return err->code;
	if (!json_object_get(body, "messages"))
		return publish_one(q, r, err);
	if (json_object_size(body) > 1)
		return error_set(
			err, TIDE_ESYNTAX,
			"beside messages there is nothing else: each message has "
			"its own members");
	return http_batch_start(q, http_request_path(q, "exchange"), r, err);
}

static int explain(struct http_request *q, struct reply *r, struct error *err)
{
	struct http_message m;
	int rc = http_message_read(&m, http_request_json(q),
				   http_request_path(q, "exchange"), err);

	if (rc == TIDE_OK)
		rc = session_explain(http_request_session(q), &m.spec, r, err);
	http_message_deinit(&m);
	return rc;
}

#define NACK "receipts delay dead bury requeue priority reason"

const struct http_route http_api_messages_routes[] = {
	{ "POST", EXCHANGE "/publish", HTTP_MESSAGE_NAMES " messages", 0, publish, NULL },
	{ "POST", EXCHANGE "/explain", HTTP_MESSAGE_NAMES, 0, explain, NULL },
	{ "POST", QUEUE "/get", "max wait ack-timeout match ack", 0, get, NULL },
	{ "POST", QUEUE "/ack", "receipts", 0, ack, NULL },
	{ "POST", QUEUE "/nack", NACK, 0, nack, NULL },
	{ "POST", QUEUE "/touch", "receipts for", 0, touch, NULL },
	{ "POST", TOPIC "/get", "max wait ack-timeout ack group from partition offset", 0,
	  get, NULL },
	{ "POST", TOPIC "/ack", "receipts", 0, ack, NULL },
	{ "POST", TOPIC "/nack", NACK, 0, nack, NULL },
	{ "POST", TOPIC "/touch", "receipts for", 0, touch, NULL },
	{ 0 },
};
