#include "http_batch.h"

#include <jansson.h>
#include <uv.h>

#include "base/mem.h"
#include "http_message.h"
#include "http_request_private.h"
#include "http_conn.h"
#include "http_engine.h"
#include "http_reply.h"

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
	http_reply_error(&j, code, text);
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
		http_reply_published(&j, r);
		json_object_end(&j);
	}
	finish_if_done(b);
}

static void publish(struct http_batch *b, struct http_batch_part *part)
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
			publish(b, &b->parts[b->next]);
		is_spent = session_is_spent(b->session, false);
	}
	if (b->next < b->count)
		go_on(b, is_held ? HELD_MS : 0);
	finish_if_done(b);
}

/* Who asked is gone: what was published is. The rest is not. */
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

int http_batch_start(struct http_request *q, struct slice exchange, struct reply *r,
		     struct error *err)
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
