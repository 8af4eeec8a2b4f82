#include "inquiry.h"

#include "redis_link.h"
#include "resp.h"

static void on_link_connected(void *ctx)
{
	struct respondent *r = ctx;

	redis_link_flush(r->link);
}

static void on_link_bytes(void *ctx)
{
}

static void on_link_reply(void *ctx, struct redis_request *q, const redisReply *reply)
{
	struct respondent *r = ctx;

	r->inquiry->on_reply(r, q->answered - r->inquiry->has_login, reply);
	if (q->answered < q->replies)
		return;
	r->is_asked = false;
	r->inquiry->on_answered(r, reply);
}

static void on_link_lost(void *ctx, const char *why)
{
	struct respondent *r = ctx;

	r->inquiry->on_lost(r, why);
}

static void on_part_closed(struct inquiry *q)
{
	void (*then)(void *ctx) = q->then;
	void *ctx = q->then_ctx;

	if (--q->open_count > 0)
		return;
	buf_deinit(&q->commands);
	q->on_closed(q);
	then(ctx);
}

static void on_link_closed(void *ctx)
{
	struct respondent *r = ctx;

	on_part_closed(r->inquiry);
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

void inquiry_init(struct inquiry *q, const char *user, const char *password)
{
	if (password && user)
		inquiry_add(q, "AUTH %s %s", user, password);
	else if (password)
		inquiry_add(q, "AUTH %s", password);
	q->has_login = q->command_count;
	uv_timer_init(q->loop, &q->timer);
	q->timer.data = q;
	q->open_count = 1;
}

void inquiry_add(struct inquiry *q, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	resp_command(&q->commands, format, args);
	va_end(args);
	q->command_count++;
	q->part = redis_request_part(buf_slice(&q->commands));
}

int inquiry_ask(struct inquiry *q, struct respondent *r)
{
	static const struct redis_link_ops ops = {
		.on_connected = on_link_connected,
		.on_bytes = on_link_bytes,
		.on_reply = on_link_reply,
		.on_lost = on_link_lost,
		.on_closed = on_link_closed,
	};
	bool is_new = !r->link;

	r->inquiry = q;
	r->is_asked = true;
	r->request = (struct redis_request){ .parts = &q->part,
					     .part_count = 1,
					     .replies = q->command_count };
	if (is_new) {
		r->link = redis_link_create(q->loop, &r->at, q->tls, &ops, r);
		q->open_count++;
	}
	redis_link_send(r->link, &r->request);
	if (is_new)
		return redis_link_connect(r->link);
	redis_link_flush(r->link);
	return TIDE_OK;
}

void inquiry_drop(struct respondent *r)
{
	struct redis_requests unanswered = TAILQ_HEAD_INITIALIZER(unanswered);

	if (r->link)
		redis_link_close(r->link, &unanswered);
	r->link = NULL;
	r->is_asked = false;
}

void inquiry_close(struct inquiry *q, void (*then)(void *ctx), void *ctx)
{
	q->then = then;
	q->then_ctx = ctx;
	uv_close((uv_handle_t *)&q->timer, on_timer_closed);
}
