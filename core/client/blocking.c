/* blocking.c: the blocking half of the library: an asynchronous client on a
 * loop of its own, which runs only while a call waits for something. */
#include <inttypes.h>
#include <stdio.h>

#include "base/container.h"
#include "base/mem.h"
#include "base/msg.h"
#include "base/percent.h"
#include "client.h"

/* How far from the front a message is looked for that has come again. It comes in the
 * order of its queue, and so it is near. */
#define WAITING_SEEN_MAX 1000

#define PUSH_AFTER_NS (10 * 1000 * 1000)

struct blocking {
	uv_loop_t loop;
	uv_timer_t timer;
	bool is_late;          /* the timer of the present wait has run out */
	uint64_t turned_at_ns; /* the last turn that sent what was pipelined */
	TAILQ_HEAD(, msg_box) inbox;
	struct buf cancellations; /* texts, each ends in a zero */
	struct buf events;        /* likewise: the others */
	struct buf blocked;       /* why publishers are held back; empty: they are not */
	struct buf reply_text;    /* of the last tidemq_request */
	struct tidemq_error refusal; /* the first of the pipelined requests' */
	uint64_t confirmed;          /* pipelined publications */
};

static void on_late(uv_timer_t *timer)
{
	struct blocking *b = timer->data;

	b->is_late = true;
	/* The turn that ran this timer must not go on to wait for input. */
	uv_stop(&b->loop);
}

typedef bool (*until_fn)(const struct tidemq_client *c, const void *ctx);

/* Run the loop until the condition holds, the connection is lost, or time is
 * up (a negative time never is). */
static int wait_until(struct tidemq_client *c, until_fn is_reached, const void *ctx,
		      int64_t timeout_ms)
{
	struct blocking *b = c->blocking;

	b->is_late = false;
	/* The loop's clock stood still since the last call. */
	uv_update_time(&b->loop);
	if (timeout_ms >= 0)
		uv_timer_start(&b->timer, on_late, (uint64_t)timeout_ms, 0);
	while (!is_reached(c, ctx) && c->state < CLIENT_LOST && !b->is_late)
		uv_run(&b->loop, UV_RUN_ONCE);
	uv_timer_stop(&b->timer);
	if (is_reached(c, ctx))
		return TIDEMQ_OK;
	if (c->state < CLIENT_LOST)
		return TIDEMQ_ETIMEDOUT;
	c->error = c->loss;
	return c->loss.status;
}

/* A late reply would be taken for that of the next request: end the connection. With the
 * option `reconnect` there will be another one, for all requests but this one. */
static int give_up(struct tidemq_client *c, const void *call, int64_t timeout_ms)
{
	struct tidemq_error late;

	const char *why = buf_cstr(&c->blocking->blocked);

	client_fail(&late, TIDEMQ_ETIMEDOUT,
		    "no reply within %" PRId64 " ms%s%s; the request may be carried out "
		    "all the same",
		    timeout_ms, *why ? ": publishers are held back, " : "", why);
	buf_clear(&c->blocking->blocked);
	if (call)
		client_request_withdraw(c, call);
	if (!c->options.reconnect || c->state == CLIENT_UP) {
		c->loss = late;
		client_connect_lose(c);
	}
	c->error = late;
	return late.status;
}

/* wait_until for a reply, `longer_ms` more than the request timeout. */
static int wait_reply(struct tidemq_client *c, until_fn is_reached, const void *call,
		      int64_t longer_ms)
{
	int64_t timeout_ms = c->options.request_timeout_ms;

	if (timeout_ms > 0)
		timeout_ms += longer_ms;
	int rc = wait_until(c, is_reached, call, timeout_ms);
	return rc == TIDEMQ_ETIMEDOUT ? give_up(c, call, timeout_ms) : rc;
}

/* A wait looks at the state instead. */
static void on_change(struct tidemq_client *c, const struct tidemq_error *why, void *ctx)
{
}

static bool is_same(const struct tidemq_msg *a, const struct tidemq_msg *b)
{
	if (a->tag == 0 || b->tag == 0 || a->channel != b->channel ||
	    strcmp(a->sid, b->sid) != 0)
		return false;
	if (a->has_offset)
		return b->has_offset && a->partition == b->partition &&
		       a->offset == b->offset;
	return strcmp(a->id, b->id) == 0;
}

/* The same message, waiting to be handed out; NULL: it is not. The caller counts what a
 * GET brought, so that those are left alone. */
static struct msg_box *find_waiting(struct blocking *b, const struct tidemq_msg *m)
{
	unsigned left = WAITING_SEEN_MAX;
	struct msg_box *box;

	if (strcmp(m->sid, "-") == 0)
		return NULL;
	TAILQ_FOREACH (box, &b->inbox, link) {
		if (left-- == 0)
			return NULL;
		if (is_same(&box->msg, m))
			return box;
	}
	return NULL;
}

static void drop_waiting(struct blocking *b, struct msg_box *box)
{
	TAILQ_REMOVE(&b->inbox, box, link);
	tidemq_msg_free(&box->msg);
}

/* After a consumer has settled nothing for a whole lease, its messages are given out
 * again. One that still waits here gets the tag that counts, and keeps its place. */
static void on_msg(struct tidemq_client *c, struct tidemq_msg *m, void *ctx)
{
	struct blocking *b = c->blocking;
	struct msg_box *box = container_of(m, struct msg_box, msg);
	struct msg_box *old = m->redelivered ? find_waiting(b, m) : NULL;

	if (!old) {
		TAILQ_INSERT_TAIL(&b->inbox, box, link);
		return;
	}
	TAILQ_INSERT_BEFORE(old, box, link);
	drop_waiting(b, old);
}

/* Stale messages have gone back to their queues, and come again. */
static void on_stale(struct tidemq_client *c)
{
	struct blocking *b = c->blocking;
	struct msg_box *box, *next;

	for (box = TAILQ_FIRST(&b->inbox); box; box = next) {
		next = TAILQ_NEXT(box, link);
		if (box->msg.tag == 0)
			continue;
		if (box->msg.has_offset)
			client_restore_unsee(&c->restore, &box->msg);
		drop_waiting(b, box);
	}
}

static void on_event(struct tidemq_client *c, unsigned channel, const char *text,
		     void *ctx)
{
	static const char prefix[] = "cancelled ";
	const char *what = text + strlen(prefix);
	struct blocking *b = c->blocking;

	/* "blocked <why>", "unblocked" */
	if (strncmp(text, "blocked ", 8) == 0) {
		buf_clear(&b->blocked);
		buf_append_text(&b->blocked, text + 8);
	} else if (strcmp(text, "unblocked") == 0) {
		buf_clear(&b->blocked);
	}
	if (strncmp(text, prefix, strlen(prefix)) == 0)
		buf_append(&c->blocking->cancellations, what, strlen(what) + 1);
	else if (c->options.events)
		buf_append(&c->blocking->events, text, strlen(text) + 1);
}

static bool is_settled(const struct tidemq_client *c, const void *ctx)
{
	return c->was_up || c->state >= CLIENT_LOST;
}

static void free_blocking(struct blocking *b)
{
	struct msg_box *box;

	uv_close((uv_handle_t *)&b->timer, NULL);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	uv_loop_close(&b->loop);
	while ((box = TAILQ_FIRST(&b->inbox)))
		drop_waiting(b, box);
	buf_deinit(&b->cancellations);
	buf_deinit(&b->events);
	buf_deinit(&b->blocked);
	buf_deinit(&b->reply_text);
	mem_free(b);
}

static struct blocking *create_blocking(struct tidemq_error *err)
{
	struct blocking *b = mem_zalloc(sizeof(*b));
	int rc = uv_loop_init(&b->loop);

	if (rc != 0) {
		client_fail(err, TIDEMQ_ECONNECT, "cannot create an event loop: %s",
			    uv_strerror(rc));
		mem_free(b);
		return NULL;
	}
	TAILQ_INIT(&b->inbox);
	uv_timer_init(&b->loop, &b->timer);
	b->timer.data = b;
	return b;
}

struct tidemq_client *tidemq_connect(const char *url,
				     const struct tidemq_options *options,
				     struct tidemq_error *err)
{
	static const struct tidemq_handlers handlers = { .on_connected = on_change,
							 .on_lost = on_change,
							 .on_msg = on_msg,
							 .on_event = on_event };
	struct blocking *b = create_blocking(err);
	struct tidemq_client *c;

	if (!b)
		return NULL;
	c = tidemq_start(&b->loop, url, options, &handlers, err);
	if (!c) {
		free_blocking(b);
		return NULL;
	}
	c->blocking = b;
	c->on_stale = on_stale;
	/* The client's own timeouts end this wait. */
	if (wait_until(c, is_settled, NULL, -1) == TIDEMQ_OK && c->state <= CLIENT_UP)
		return c;
	if (err)
		*err = c->loss;
	tidemq_disconnect(c);
	return NULL;
}

void tidemq_disconnect(struct tidemq_client *c)
{
	struct blocking *b;

	if (!c)
		return;
	b = c->blocking;
	tidemq_close(c, NULL, NULL);
	free_blocking(b);
}

struct blocking_call {
	bool is_done;
	bool is_document;
	struct tidemq_error error;
};

static bool is_call_done(const struct tidemq_client *c, const void *ctx)
{
	return ((const struct blocking_call *)ctx)->is_done;
}

static void on_call_done(struct tidemq_client *c, const struct tidemq_reply *reply,
			 void *ctx)
{
	struct blocking_call *call = ctx;

	call->is_done = true;
	call->is_document = reply->is_document;
	buf_clear(&c->blocking->reply_text);
	buf_append(&c->blocking->reply_text, reply->text, reply->len);
	if (reply->status != TIDEMQ_OK)
		client_fail_remote(&call->error, reply->status, slice_from(reply->word),
				   (struct slice){ reply->text, reply->len });
}

/* Half a window, so that the next publications leave in one write. */
static bool has_room(const struct tidemq_client *c, const void *ctx)
{
	return client_request_has_room(c);
}

/* Wait until a request may be sent. */
static int make_room(struct tidemq_client *c)
{
	int rc = client_request_check(c, false);

	return rc == TIDEMQ_EBUSY ? wait_reply(c, has_room, NULL, 0) : rc;
}

/* Wait for the reply to what was sent, if it was. */
static int finish_call(struct tidemq_client *c, struct blocking_call *call, int sent,
		       int64_t longer_ms, struct tidemq_reply *reply)
{
	struct buf *text = &c->blocking->reply_text;
	int rc = sent == TIDEMQ_OK ? wait_reply(c, is_call_done, call, longer_ms) : sent;

	if (rc == TIDEMQ_OK) {
		c->error = call->error;
		rc = call->error.status;
	}
	if (!reply)
		return rc;
	*reply = client_request_failed_reply(&c->error);
	reply->status = rc;
	reply->is_document = call->is_document;
	if (rc == TIDEMQ_OK) {
		reply->text = buf_cstr(text);
		reply->len = buf_len(text);
	}
	return rc;
}

static int send_and_wait(struct tidemq_client *c, const char *line, struct slice payload,
			 int64_t longer_ms, struct tidemq_reply *reply)
{
	struct blocking_call call = { 0 };
	int rc = make_room(c);

	if (rc == TIDEMQ_OK)
		rc = tidemq_send(c, line, payload.data, payload.len, on_call_done, &call);
	return finish_call(c, &call, rc, longer_ms, reply);
}

int tidemq_request(struct tidemq_client *c, const char *line, const void *payload,
		   size_t payload_len, struct tidemq_reply *reply)
{
	return send_and_wait(c, line, (struct slice){ payload, payload_len }, 0, reply);
}

/* Send the line that `line` holds and release it. */
static int request_take(struct tidemq_client *c, struct buf *line, int encoded,
			int64_t longer_ms, struct tidemq_reply *reply)
{
	int rc = encoded;

	if (rc == TIDEMQ_OK)
		rc = send_and_wait(c, buf_cstr(line), SLICE(""), longer_ms, reply);
	buf_deinit(line);
	return rc;
}

int tidemq_publish(struct tidemq_client *c, const struct tidemq_publication *p,
		   struct tidemq_receipt *receipt)
{
	struct blocking_call call = { 0 };
	struct tidemq_reply reply;
	int rc = make_room(c);

	if (rc == TIDEMQ_OK)
		rc = tidemq_send_publication(c, 0, p, on_call_done, &call);
	rc = finish_call(c, &call, rc, 0, &reply);
	if (rc == TIDEMQ_OK && receipt &&
	    tidemq_reply_receipt(&reply, receipt) != TIDEMQ_OK)
		rc = client_fail(&c->error, TIDEMQ_EPROTOCOL,
				 "cannot read the broker's confirm");
	return rc;
}

static void on_pipelined(struct tidemq_client *c, const struct tidemq_reply *reply,
			 void *ctx)
{
	struct tidemq_error *refusal = &c->blocking->refusal;

	if (reply->status != TIDEMQ_OK && refusal->status == TIDEMQ_OK)
		client_fail_remote(refusal, reply->status, slice_from(reply->word),
				   (struct slice){ reply->text, reply->len });
}

/* Report the refusal of an earlier pipelined request, once. */
static int take_refusal(struct tidemq_client *c)
{
	struct tidemq_error *refusal = &c->blocking->refusal;

	if (refusal->status == TIDEMQ_OK)
		return TIDEMQ_OK;
	c->error = *refusal;
	memset(refusal, 0, sizeof(*refusal));
	return c->error.status;
}

/* Wait until a pipelined request may be sent. */
static int begin_pipelined(struct tidemq_client *c)
{
	int rc = make_room(c);

	return rc == TIDEMQ_OK ? take_refusal(c) : rc;
}

static void on_published(struct tidemq_client *c, const struct tidemq_reply *reply,
			 void *ctx)
{
	c->blocking->confirmed += reply->status == TIDEMQ_OK;
	on_pipelined(c, reply, ctx);
}

int tidemq_publish_pipelined(struct tidemq_client *c, const struct tidemq_publication *p)
{
	int rc = begin_pipelined(c);

	return rc == TIDEMQ_OK ? tidemq_send_publication(c, 0, p, on_published, NULL)
			       : rc;
}

uint64_t tidemq_confirmed(const struct tidemq_client *c)
{
	return c->blocking->confirmed;
}

static bool is_confirmed(const struct tidemq_client *c, const void *ctx)
{
	return c->in_flight == 0;
}

int tidemq_flush(struct tidemq_client *c)
{
	int rc = wait_reply(c, is_confirmed, NULL, 0);
	int refused = take_refusal(c);

	return rc == TIDEMQ_OK ? refused : rc;
}

int tidemq_subscribe(struct tidemq_client *c, const struct tidemq_subscription *s)
{
	struct buf line = { 0 };
	int rc = encode_subscription(&line, s, &c->error);

	return request_take(c, &line, rc, 0, NULL);
}

int tidemq_unsubscribe(struct tidemq_client *c, const char *sid)
{
	struct buf line = { 0 };
	int rc;

	buf_append_text(&line, "UNSUB ");
	rc = encode_word(&line, sid, "subscription's name", false, &c->error);
	return request_take(c, &line, rc, 0, NULL);
}

int tidemq_get(struct tidemq_client *c, const struct tidemq_fetch *f, unsigned *count)
{
	struct tidemq_reply reply;
	struct buf line = { 0 };
	int rc = encode_fetch(&line, f, &c->error);
	uint64_t n;

	*count = 0;
	rc = request_take(c, &line, rc, f->wait_ms > 0 ? f->wait_ms : 0, &reply);
	if (rc == TIDEMQ_OK &&
	    slice_to_uint((struct slice){ reply.text, reply.len }, UINT32_MAX, &n))
		*count = (unsigned)n;
	return rc;
}

static bool has_arrival(const struct tidemq_client *c, const void *ctx)
{
	return !TAILQ_EMPTY(&c->blocking->inbox) ||
	       buf_len(&c->blocking->cancellations) > 0 ||
	       buf_len(&c->blocking->events) > 0;
}

/* The first of the texts is that of the error. */
static int take_text(struct tidemq_client *c, struct buf *texts, int status)
{
	const char *text = buf_slice(texts).data;

	client_fail(&c->error, status, "%s", text);
	buf_consume(texts, strlen(text) + 1);
	return status;
}

/* While messages wait here, no call waits for the broker: the pipelined acks of a slow
 * consumer would stay in the buffer until it has worked on all of them, and it would
 * settle nothing for so long. A fast one still sends many at once. */
static void push_acks(struct tidemq_client *c)
{
	struct blocking *b = c->blocking;

	if (buf_len(&c->out) == 0 || uv_hrtime() - b->turned_at_ns < PUSH_AFTER_NS)
		return;
	b->turned_at_ns = uv_hrtime();
	uv_run(&b->loop, UV_RUN_NOWAIT);
}

int tidemq_next(struct tidemq_client *c, int64_t timeout_ms, struct tidemq_msg **out)
{
	struct blocking *b = c->blocking;
	struct msg_box *box;
	int rc;

	push_acks(c);
	rc = wait_until(c, has_arrival, NULL, timeout_ms);
	box = TAILQ_FIRST(&b->inbox);
	*out = NULL;
	if (rc == TIDEMQ_ETIMEDOUT && c->state < CLIENT_LOST)
		return client_fail(&c->error, rc, "no message arrived");
	/* An earlier call has had no reply, and has ended the connection. */
	if (rc == TIDEMQ_ETIMEDOUT)
		return TIDEMQ_ECLOSED;
	if (rc != TIDEMQ_OK)
		return rc;
	if (buf_len(&b->events) > 0)
		return take_text(c, &b->events, TIDEMQ_EEVENT);
	if (box) {
		TAILQ_REMOVE(&b->inbox, box, link);
		*out = &box->msg;
		return TIDEMQ_OK;
	}
	return take_text(c, &b->cancellations, TIDEMQ_ECANCELLED);
}

/* The line that settles a message. */
static int settle_line(struct tidemq_client *c, const struct tidemq_msg *m,
		       const char *verb, const char *option, struct buf *line)
{
	if (m->tag == 0)
		return client_fail(&c->error, TIDEMQ_EINVAL,
				   "the message was acknowledged when it was sent");
	if (m->channel > 0)
		buf_printf(line, "@%u ", m->channel);
	buf_printf(line, "%s %" PRIu64 "%s", verb, m->tag, option);
	return TIDEMQ_OK;
}

static int settle_message(struct tidemq_client *c, const struct tidemq_msg *m,
			  const char *verb, const char *option)
{
	struct buf line = { 0 };
	int rc = settle_line(c, m, verb, option, &line);

	return request_take(c, &line, rc, 0, NULL);
}

int tidemq_ack_pipelined(struct tidemq_client *c, const struct tidemq_msg *m)
{
	struct buf line = { 0 };
	int rc = begin_pipelined(c);

	if (rc == TIDEMQ_OK)
		rc = settle_line(c, m, "ACK", "", &line);
	if (rc == TIDEMQ_OK)
		rc = tidemq_send(c, buf_cstr(&line), NULL, 0, on_pipelined, NULL);
	buf_deinit(&line);
	return rc;
}

int tidemq_ack(struct tidemq_client *c, const struct tidemq_msg *m)
{
	struct tidemq_reply reply;
	struct buf line = { 0 };
	struct msg_box *again;
	int rc = settle_line(c, m, "ACK", "", &line);

	rc = request_take(c, &line, rc, 0, &reply);
	/* Of a late ack: the message may have come again meanwhile. */
	again = rc == TIDEMQ_OK ? find_waiting(c->blocking, m) : NULL;
	if (again && strcmp(reply.text, "queued") != 0)
		drop_waiting(c->blocking, again);
	return rc;
}

int tidemq_nack(struct tidemq_client *c, const struct tidemq_msg *m, enum tidemq_nack how)
{
	return tidemq_nack_reason(c, m, how, NULL);
}

int tidemq_nack_reason(struct tidemq_client *c, const struct tidemq_msg *m,
		       enum tidemq_nack how, const char *reason)
{
	static const char *const options[] = { [TIDEMQ_NACK_RETRY] = "",
					       [TIDEMQ_NACK_REQUEUE] = " requeue",
					       [TIDEMQ_NACK_DEAD] = " dead",
					       [TIDEMQ_NACK_BURY] = " bury" };

	struct buf option = { 0 };
	int rc;

	buf_append_text(&option, options[how]);
	if (reason && *reason) {
		buf_append_text(&option, " reason=");
		percent_encode(&option, msg_cut_reason(slice_from(reason)));
	}
	rc = settle_message(c, m, "NACK", buf_cstr(&option));
	buf_deinit(&option);
	return rc;
}

int tidemq_nack_delay(struct tidemq_client *c, const struct tidemq_msg *m,
		      int64_t delay_ms)
{
	char option[40];

	snprintf(option, sizeof(option), " delay=%" PRId64, delay_ms < 0 ? 0 : delay_ms);
	return settle_message(c, m, "NACK", option);
}

int tidemq_touch(struct tidemq_client *c, const struct tidemq_msg *m, int64_t for_ms)
{
	char option[40] = "";

	if (for_ms > 0)
		snprintf(option, sizeof(option), " for=%" PRId64, for_ms);
	return settle_message(c, m, "TOUCH", option);
}
