#include "http_request.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/duration.h"
#include "base/mem.h"
#include "ops/message_verbs.h"

#define HTTP_BATCH_MAX 10000

static int ack(struct http_request *q, struct reply *r, struct error *err);

/* Of one object: the first error stays. */
struct http_message_reader {
	const json_t *object;
	struct error *err;
	int rc;
};

static void refuse(struct http_message_reader *r, const char *name, const char *expected)
{
	if (r->rc == TIDE_OK)
		r->rc = error_set(r->err, TIDE_ESYNTAX, "%s: expected %s", name,
				  expected);
}

/* NULL: it is not given. */
static const json_t *find(const struct http_message_reader *r, const char *name)
{
	const json_t *value = json_object_get(r->object, name);

	return json_is_null(value) ? NULL : value;
}

static struct slice text_of(const json_t *value)
{
	return (struct slice){ json_string_value(value), json_string_length(value) };
}

static struct slice read_text(struct http_message_reader *r, const char *name)
{
	const json_t *value = find(r, name);

	if (!value)
		return (struct slice){ NULL, 0 };
	if (!json_is_string(value))
		refuse(r, name, "a string");
	return text_of(value);
}

static uint64_t read_uint(struct http_message_reader *r, const char *name, uint64_t max)
{
	const json_t *value = find(r, name);
	json_int_t n = json_integer_value(value);
	char expected[64];

	if (!value || (json_is_integer(value) && n >= 0 && (uint64_t)n <= max))
		return (uint64_t)n;
	snprintf(expected, sizeof(expected), "a number from 0 to %" PRIu64, max);
	refuse(r, name, expected);
	return 0;
}

static int64_t read_duration(struct http_message_reader *r, const char *name, int64_t min,
			     int64_t max)
{
	const json_t *value = find(r, name);
	int64_t ms = json_integer_value(value);
	bool is_read =
		json_is_integer(value) ||
		(json_is_string(value) && duration_parse(text_of(value), &ms) == 0);

	if (!value || (is_read && ms >= min && ms <= max))
		return ms;
	refuse(r, name,
	       min >= MSG_ACK_TIMEOUT_MIN_MS
		       ? "a duration like \"30s\", or a number of ms, from 10ms to 24h"
		       : "a duration like \"30s\", or a number of ms");
	return 0;
}

static bool read_flag(struct http_message_reader *r, const char *name)
{
	const json_t *value = find(r, name);

	if (value && !json_is_boolean(value))
		refuse(r, name, "true or false");
	return json_is_true(value);
}

static void read_headers(struct http_message_reader *r, struct http_message *out)
{
	json_t *headers = (json_t *)find(r, "headers"), *value;
	const char *name;

	if (headers && !json_is_object(headers))
		refuse(r, "headers", "an object of strings");
	if (json_object_size(headers) > MSG_HEADERS_MAX && r->rc == TIDE_OK)
		r->rc = error_set(r->err, TIDE_ETOOLONG,
				  "headers: a message has at most %d", MSG_HEADERS_MAX);
	if (r->rc < 0)
		return;
	json_object_foreach(headers, name, value)
	{
		if (!json_is_string(value) || !slice_is_name(slice_from(name)))
			refuse(r, "headers",
			       "an object of strings, whose names have no white space "
			       "and no control characters");
		out->headers[out->spec.header_count++] =
			(struct msg_header){ slice_from(name), text_of(value) };
	}
	out->spec.headers = out->headers;
}

static void read_payload(struct http_message_reader *r, struct http_message *out)
{
	struct slice text = read_text(r, "payload"),
		     encoded = read_text(r, "payload_base64");
	size_t len;

	if (text.data && encoded.data)
		refuse(r, "payload", "no payload_base64 beside it");
	if (r->rc < 0)
		return;
	out->spec.payload = text.data;
	out->spec.payload_len = text.len;
	if (!encoded.data)
		return;
	out->room = mem_alloc(encoded.len + 1);
	if (!base64_decode(encoded, BASE64_STANDARD, out->room, &len))
		refuse(r, "payload_base64", "base64 with padding");
	out->spec.payload = out->room;
	out->spec.payload_len = len;
}

static struct slice read_key(struct http_message_reader *r)
{
	struct slice key = read_text(r, "key");

	if (!key.data || slice_is(key, "-"))
		return SLICE("");
	if (key.len > 0 && !slice_is_name(key))
		refuse(r, "key",
		       "at most 255 bytes of UTF-8 without white space and control "
		       "characters");
	return key;
}

static void check_names(struct http_message_reader *r)
{
	json_t *object = (json_t *)r->object, *value;
	const char *name;

	if (object && !json_is_object(object))
		r->rc = error_set(r->err, TIDE_ESYNTAX,
				  "a message is an object with: " HTTP_MESSAGE_NAMES);
	json_object_foreach(object, name, value) if (r->rc == TIDE_OK &&
						     !slice_is_listed(slice_from(name),
								      HTTP_MESSAGE_NAMES))
		r->rc = error_set(r->err, TIDE_ESYNTAX,
				  "a message has no member '%.64s'; it "
				  "takes: " HTTP_MESSAGE_NAMES,
				  name);
}

int http_message_read(struct http_message *out, const void *object, struct slice exchange,
		      struct error *err)
{
	struct http_message_reader r = { object, err, TIDE_OK };
	struct publish_spec *spec = &out->spec;

	*out = (struct http_message){ 0 };
	check_names(&r);
	if (!slice_is(exchange, "-"))
		spec->exchange = exchange;
	spec->key = read_key(&r);
	spec->priority = (uint8_t)read_uint(&r, "priority", MSG_PRIORITY_MAX);
	spec->delay_ms = read_duration(&r, "delay", 0, DURATION_MAX_MS);
	spec->ttl_ms = read_duration(&r, "ttl", 1, DURATION_MAX_MS);
	spec->ack_timeout_ms = (uint32_t)read_duration(
		&r, "ack-timeout", MSG_ACK_TIMEOUT_MIN_MS, MSG_ACK_TIMEOUT_MAX_MS);
	spec->is_transient = find(&r, "durable") && !read_flag(&r, "durable");
	spec->dedupe_id = read_text(&r, "id");
	if (spec->dedupe_id.data &&
	    (spec->dedupe_id.len == 0 || spec->dedupe_id.len > MSG_DEDUPE_ID_MAX))
		refuse(&r, "id", "a string of 1 to 128 bytes");
	out->demand.must = read_flag(&r, "must");
	out->demand.has_expected = find(&r, "expect") != NULL;
	out->demand.expected = read_uint(&r, "expect", INT64_MAX);
	read_headers(&r, out);
	read_payload(&r, out);
	return r.rc;
}

void http_message_deinit(struct http_message *m)
{
	mem_free(m->room);
	m->room = NULL;
}

void http_message_write(const struct delivery *d, const char *receipt, struct json *j)
{
	const struct msg *m = d->msg;

	json_object_begin(j);
	json_member_hex(j, "id", m->id);
	if (receipt)
		json_member_text(j, "receipt", receipt);
	json_member_string(j, "exchange", msg_exchange_word(m));
	json_member_string(j, "key", m->key);
	json_member_int(j, "priority", m->priority);
	json_member_int(j, "ts", m->ts_unix_ms);
	json_member_int(j, "attempt", d->attempt);
	json_member_bool(j, "redelivered", d->is_redelivered);
	if (d->has_offset) {
		json_member_int(j, "partition", d->partition);
		json_member_int(j, "offset", (int64_t)d->offset);
	}
	msg_write_headers(reply_head(d), j);
	session_peek_write_payload(j, m);
	json_object_end(j);
}

/* Many messages in one request: {"messages":[…]}.
 *
 * All are published in their order, some in each turn, and waited for together. The
 * answer has a result for each: an object as for one message, or {"error":…}. */

#define HELD_MS 20

struct http_batch;

/* One of the messages: its result, as JSON. */
struct http_batch_part {
	struct http_batch *batch;
	struct buf result;
};

struct http_batch {
	uv_timer_t timer; /* the next turn's share */
	struct channel *channel;
	struct session *session;
	struct reply *answer; /* NULL: it is given */
	struct reply *guard;  /* tells the end of the session */
	json_t *messages;     /* a reference */
	char *exchange;
	size_t next, count;
	size_t waiting; /* published, without their results */
	struct http_batch_part parts[];
};

static void on_closed(uv_handle_t *handle)
{
	struct http_batch *b = handle->data;

	for (size_t i = 0; i < b->count; i++)
		buf_deinit(&b->parts[i].result);
	json_decref(b->messages);
	mem_free(b->exchange);
	mem_free(b);
}

static void write_results(const struct http_batch *b, struct buf *out)
{
	buf_append_text(out, "{\"results\":[");
	for (size_t i = 0; i < b->count; i++) {
		if (i > 0)
			buf_append_char(out, ',');
		buf_append_slice(out, buf_slice(&b->parts[i].result));
	}
	buf_append_text(out, "]}");
}

/* All results are there. */
static void finish(struct http_batch *b)
{
	struct reply *guard = b->guard, *r = b->answer;
	struct buf text = { 0 };

	b->guard = b->answer = NULL;
	if (guard)
		reply_ok(guard);
	write_results(b, &text);
	uv_close((uv_handle_t *)&b->timer, on_closed);
	reply_data_take(r, &text);
}

static void finish_if_done(struct http_batch *b)
{
	if (b->answer && b->next == b->count && b->waiting == 0)
		finish(b);
}

static void write_error(struct http_batch_part *part, int code, const char *text)
{
	struct json j = { .out = &part->result };

	json_object_begin(&j);
	http_answer_member_error(&j, code, text);
	json_object_end(&j);
}

static void on_published(void *ctx, struct reply *r)
{
	struct http_batch_part *part = ctx;
	struct http_batch *b = part->batch;
	struct json j = { .out = &part->result };

	b->waiting--;
	if (r->kind == REPLY_ERROR) {
		write_error(part, r->error, r->text);
	} else {
		json_object_begin(&j);
		http_answer_published(&j, r);
		json_object_end(&j);
	}
	finish_if_done(b);
}

static void publish_part(struct http_batch *b, struct http_batch_part *part)
{
	struct http_message m;
	struct error err;
	struct msg *msg;
	int rc = http_message_read(&m, json_array_get(b->messages, b->next),
				   slice_from(b->exchange), &err);

	b->next++;
	if (rc == TIDE_OK)
		rc = session_publish_prepare(b->session, &m.spec, &msg, &err);
	http_message_deinit(&m);
	if (rc < 0) {
		write_error(part, rc, err.text);
		return;
	}
	b->waiting++;
	session_publish_take(b->session, msg, &m.demand,
			     reply_create_aside(b->channel, on_published, part));
}

static void on_timer(uv_timer_t *timer);

static void go_on(struct http_batch *b, uint64_t ms)
{
	uv_timer_start(&b->timer, on_timer, ms, 0);
}

/* As many as this turn has time for. Publishers who are held back wait. */
static void on_timer(uv_timer_t *timer)
{
	struct http_batch *b = timer->data;
	bool is_held = false, is_spent = false;

	session_begin(b->session);
	while (b->next < b->count && !is_held && !is_spent) {
		is_held = session_is_held(b->session, false) ||
			  session_publish_is_blocked(b->session);
		if (!is_held)
			publish_part(b, &b->parts[b->next]);
		is_spent = session_is_spent(b->session, false);
	}
	if (b->next < b->count)
		go_on(b, is_held ? HELD_MS : 0);
	finish_if_done(b);
}

/* The asker is gone: what was published stays, and the rest is not published. */
static void on_guard(void *ctx, struct reply *r)
{
	struct http_batch *b = ctx;
	struct reply *answer = b->answer, *guard = b->guard;
	struct error gone;

	if (r->kind != REPLY_ERROR)
		return; /* it has done its duty */
	b->guard = b->answer = NULL;
	reply_ok(guard);
	uv_close((uv_handle_t *)&b->timer, on_closed);
	error_set(&gone, r->error, "%s", r->text);
	reply_error(answer, &gone);
}

static int check_messages(const json_t *messages, struct error *err)
{
	if (!json_is_array(messages) || json_array_size(messages) == 0)
		return error_set(err, TIDE_ESYNTAX,
				 "messages: expected an array of messages");
	if (json_array_size(messages) > HTTP_BATCH_MAX)
		return error_set(err, TIDE_ETOOLONG,
				 "messages: %zu are too many; at most %d in a request",
				 json_array_size(messages), HTTP_BATCH_MAX);
	return TIDE_OK;
}

/* @param exchange  "-": the default one; as long-lived as the request */
static int http_batch_start(struct http_request *q, struct slice exchange,
			    struct reply *r, struct error *err)
{
	json_t *messages = json_object_get(http_request_json(q), "messages");
	struct http_batch *b;
	size_t count;

	if (check_messages(messages, err) < 0)
		return err->code;
	count = json_array_size(messages);
	b = mem_zalloc(sizeof(*b) + count * sizeof(*b->parts));
	b->session = http_request_session(q);
	b->channel = http_request_channel(q);
	b->answer = r;
	b->messages = json_incref(messages);
	b->exchange = mem_strndup(exchange.data, exchange.len);
	b->count = count;
	for (size_t i = 0; i < count; i++)
		b->parts[i].batch = b;
	uv_timer_init(q->conn->engine->loop, &b->timer);
	b->timer.data = b;
	b->guard = reply_create_aside(b->channel, on_guard, b);
	go_on(b, 0);
	return TIDE_OK;
}

/* Messages over HTTP: publishing, and GET with receipts. */

#define EXCHANGE "/api/vhosts/{vhost}/exchanges/{exchange}"
#define QUEUE "/api/vhosts/{vhost}/queues/{queue}"
#define TOPIC "/api/vhosts/{vhost}/topics/{queue}"

static struct slice queue_of(const struct http_request *q)
{
	return http_request_path(q, "queue");
}

static struct http_leases *leases_of(const struct http_request *q)
{
	return q->conn->engine->leases;
}

static struct operation_request request_of(struct http_request *q)
{
	return (struct operation_request){ .ctx = q, .value = http_request_value };
}

/* ---- GET and what follows ---- */

static int get(struct http_request *q, struct reply *r, struct error *err)
{
	const struct operation_request request = request_of(q);
	struct slice queue = queue_of(q);
	struct get_spec spec = { .queues = &queue, .queue_count = 1 };

	if (message_verbs_read_get(&request, &spec, NULL, err) < 0)
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

static int settle(struct http_request *q, enum settle how, struct reply *r,
		  struct error *err)
{
	const struct operation_request request = request_of(q);
	struct slice receipts[HTTP_LEASE_RECEIPTS_MAX];
	struct http_settle what = { .queue = queue_of(q), .receipts = receipts };

	if (message_verbs_read_settle(&request, how, &what.spec, err) < 0 ||
	    read_receipts(q, receipts, &what.count, err) < 0)
		return err->code;
	return http_lease_settle(leases_of(q), q, &what, r, err);
}

static int ack(struct http_request *q, struct reply *r, struct error *err)
{
	return settle(q, SETTLE_ACK, r, err);
}

static int nack(struct http_request *q, struct reply *r, struct error *err)
{
	return settle(q, SETTLE_RETRY, r, err);
}

static int touch(struct http_request *q, struct reply *r, struct error *err)
{
	return settle(q, SETTLE_TOUCH, r, err);
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

const struct http_route http_message_routes[] = {
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
