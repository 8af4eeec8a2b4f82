/* Figures that go on by the clock: server-sent events. The first comes at once. A peer
 * that reads slowly gets fewer of them. */
#include "base/mem.h"
#include "http_engine.h"
#include "http_request_private.h"

/* Something comes so often at least, for whoever stands between and closes what is
 * silent; and so that we hear of a peer that has gone. */
#define SILENCE_MS 15000

struct stats_feed {
	struct http_request *request;
	uv_timer_t timer;
	int64_t every_ms;
	int64_t left_ms; /* until the next event */
	bool is_due;     /* one is, or a comment */
	struct buf *out; /* where the reply goes */
	struct error err;
};

static void on_reply(void *ctx, struct reply *r)
{
	struct stats_feed *f = ctx;

	if (r->kind == REPLY_DATA)
		buf_append_slice(f->out, buf_slice(&r->data));
	else
		error_set(&f->err, r->error, "%s", r->text);
}

/* It is asked anew each time: the user may no longer be allowed to. TIDE_AGAIN passes
 * this event over. */
static int write_sample(struct stats_feed *f, struct buf *out)
{
	struct reply *r = reply_create(http_request_channel(f->request), false);

	f->out = out;
	f->err.code = TIDE_OK;
	if (session_report_sample(http_request_session(f->request), r, &f->err) < 0)
		reply_error(r, &f->err);
	return f->err.code;
}

static int write_event(struct stats_feed *f, struct buf *out)
{
	size_t before;
	int rc;

	buf_append_text(out, "event: stats\ndata: ");
	before = buf_len(out);
	session_begin(http_request_session(f->request));
	rc = write_sample(f, out);
	if (rc == TIDE_OK && buf_len(out) > before) {
		buf_append_text(out, "\n\n");
		return TIDE_OK;
	}
	buf_clear(out);
	return rc == TIDE_AGAIN ? TIDE_OK : rc;
}

static int64_t step_ms(const struct stats_feed *f)
{
	return f->left_ms < SILENCE_MS ? f->left_ms : SILENCE_MS;
}

static void on_timer(uv_timer_t *timer)
{
	struct stats_feed *f = timer->data;

	f->left_ms -= step_ms(f);
	f->is_due = true;
	http_stream_wake(f->request);
}

static int next(void *ctx, struct buf *out, size_t room)
{
	struct stats_feed *f = ctx;
	int rc = TIDE_OK;

	if (!f->is_due)
		return TIDE_AGAIN;
	f->is_due = false;
	if (f->left_ms > 0) {
		buf_append_text(out, ":\n\n");
	} else {
		f->left_ms = f->every_ms;
		rc = write_event(f, out);
	}
	uv_timer_start(&f->timer, on_timer, (uint64_t)step_ms(f), 0);
	return rc < 0 ? rc : TIDE_AGAIN;
}

static void on_closed(uv_handle_t *handle)
{
	mem_free(handle->data);
}

static void end(void *ctx)
{
	struct stats_feed *f = ctx;

	uv_close((uv_handle_t *)&f->timer, on_closed);
}

/* One that may not ask is told so, and not by a stream that ends. */
static int try_once(struct stats_feed *f, struct error *err)
{
	struct buf first = { 0 };
	int rc = write_sample(f, &first);

	buf_deinit(&first);
	return rc < 0 ? error_set(err, rc, "%s", f->err.text) : TIDE_OK;
}

static int get_events(struct http_request *q, struct reply *r, struct error *err)
{
	const struct number_limits limits = { 100, 60000 };
	struct stats_feed *f = mem_zalloc(sizeof(*f));
	const struct http_source source = {
		.content_type = "text/event-stream",
		.next = next,
		.end = end,
		.ctx = f,
		.is_endless = true,
	};
	int rc;

	f->request = q;
	f->every_ms = http_request_duration(q, "every", limits);
	if (!f->every_ms)
		f->every_ms = 2000;
	f->is_due = true;
	rc = http_request_check(q, err);
	if (rc == TIDE_OK) {
		http_request_listen(q, on_reply, f);
		rc = try_once(f, err);
	}
	if (rc < 0) {
		mem_free(f);
		return rc;
	}
	uv_timer_init(q->conn->engine->loop, &f->timer);
	f->timer.data = f;
	http_stream_start(q, &source);
	return TIDE_OK;
}

const struct http_route http_api_events_routes[] = {
	{ "GET", "/api/events", "every", 0, get_events, NULL },
	{ 0 },
};
