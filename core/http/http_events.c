#include "http_events.h"

#include "base/mem.h"
#include "http_engine.h"
#include "http_request_private.h"

/* Something comes so often at least, for whoever stands between and closes what is
 * silent; and so that we hear of a peer that has gone. */
#define SILENCE_MS 15000

struct feed {
	struct http_events events;
	struct http_request *request;
	uv_timer_t timer;
	int64_t left_ms; /* until the next event */
	bool is_due;     /* one is, or a comment */
};

static int64_t step_ms(const struct feed *f)
{
	return f->left_ms < SILENCE_MS ? f->left_ms : SILENCE_MS;
}

static void on_timer(uv_timer_t *timer)
{
	struct feed *f = timer->data;

	f->left_ms -= step_ms(f);
	f->is_due = true;
	http_stream_wake(f->request);
}

static int write_event(struct feed *f, struct buf *out)
{
	size_t before;
	int rc;

	buf_printf(out, "event: %s\ndata: ", f->events.name);
	before = buf_len(out);
	session_begin(http_request_session(f->request));
	rc = f->events.write(f->events.ctx, out);
	if (rc == TIDE_OK && buf_len(out) > before) {
		buf_append_text(out, "\n\n");
		return TIDE_OK;
	}
	buf_clear(out);
	return rc == TIDE_AGAIN ? TIDE_OK : rc;
}

static int next(void *ctx, struct buf *out, size_t room)
{
	struct feed *f = ctx;
	int rc = TIDE_OK;

	if (!f->is_due)
		return TIDE_AGAIN;
	f->is_due = false;
	if (f->left_ms > 0) {
		buf_append_text(out, ":\n\n");
	} else {
		f->left_ms = f->events.every_ms;
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
	struct feed *f = ctx;

	if (f->events.end)
		f->events.end(f->events.ctx);
	uv_close((uv_handle_t *)&f->timer, on_closed);
}

void http_events_start(struct http_request *q, const struct http_events *events)
{
	struct feed *f = mem_zalloc(sizeof(*f));
	const struct http_source source = {
		.content_type = "text/event-stream",
		.next = next,
		.end = end,
		.ctx = f,
		.is_endless = true,
	};

	f->events = *events;
	f->request = q;
	f->is_due = true;
	uv_timer_init(q->conn->engine->loop, &f->timer);
	f->timer.data = f;
	http_stream_start(q, &source);
}
