#include "reply.h"

#include "base/container.h"
#include "base/mem.h"
#include "session_private.h"

static void free_parts(struct reply *r)
{
	for (uint64_t i = 0; r->deliveries && i < r->count; i++) {
		msg_unref(r->deliveries[i].msg);
		msg_unref(r->deliveries[i].head);
	}
	mem_free(r->deliveries);
	mem_free(r->text);
	buf_deinit(&r->data);
}

static void reply_free(struct reply *r, struct pool *pool)
{
	/* The OK of a publish or an ack has none. */
	if (r->kind != REPLY_OK && r->kind != REPLY_COUNT && r->kind != REPLY_COUNTS &&
	    r->kind != REPLY_PUBLISHED)
		free_parts(r);
	pool_give(pool, r);
}

/* The size of an answer until it is in the output. */
static size_t size_of(const struct reply *r)
{
	size_t bytes = buf_len(&r->data);

	for (uint64_t i = 0; r->deliveries && i < r->count; i++)
		if (reply_is_alone(&r->deliveries[i]))
			bytes += r->deliveries[i].msg->payload_len;
	return bytes;
}

/* Take the reply out of the channel's order. */
static void uncount(struct session *s, struct reply *r)
{
	s->pending--;
	if (r->is_document)
		s->documents--;
	if (r->is_written)
		s->written--;
	if (r->is_kept)
		session_answer_give(s, size_of(r));
}

/* An answer that may be large is there. */
static void settle_size(struct reply *r)
{
	struct session *s = r->channel->session;

	if (r->is_written)
		s->written--;
	r->is_written = false;
	if (STAILQ_FIRST(&r->channel->replies) == r)
		return;
	r->is_kept = true;
	session_answer_keep(s, size_of(r));
	/* The next document may be written, though this one has not left. */
	s->ops->on_progress(s->ctx);
}

static void flush(struct channel *ch)
{
	struct session *s = ch->session;
	struct reply *r;

	while ((r = STAILQ_FIRST(&ch->replies)) != NULL && r->is_done) {
		STAILQ_REMOVE_HEAD(&ch->replies, link);
		uncount(s, r);
		if (!r->is_quiet || r->kind == REPLY_ERROR)
			s->ops->on_reply(s->ctx, ch->number, r);
		else
			s->ops->on_progress(s->ctx);
		if (r->subscription)
			subscription_confirmed(r->subscription);
		reply_free(r, &s->service->replies);
	}
	if (ch->is_closing && STAILQ_EMPTY(&ch->replies))
		channel_forget(ch);
}

static void finish(struct reply *r)
{
	struct service *s = r->service;

	r->is_done = true;
	if (r->channel && r->kind >= REPLY_MESSAGES)
		settle_size(r);
	if (r->channel)
		flush(r->channel);
	else
		reply_free(r, &s->replies);
}

static void tell_confirmed(const struct reply *r, const char *text)
{
	const struct step_confirm confirm = { r->waiter.status, text, r->count,
					      r->is_duplicate };

	STEP_TELL(&r->service->broker->followers, STEP_CONFIRMED, .id = r->id,
		  .confirm = &confirm);
}

static struct reply *take_status(struct waiter *w)
{
	struct reply *r = container_of(w, struct reply, waiter);

	if (r->kind == REPLY_PUBLISHED &&
	    step_is_followed(&r->service->broker->followers, STEP_CONFIRMED))
		tell_confirmed(r, w->text ? w->text : error_text(w->status));
	if (w->status < 0) {
		r->kind = REPLY_ERROR;
		r->error = w->status;
		mem_free(r->text);
		r->text = mem_strdup(w->text ? w->text : error_text(w->status));
	}
	return r;
}

static void on_waiter_done(struct waiter *w)
{
	finish(take_status(w));
}

static void leave_aside(struct reply_aside *a)
{
	TAILQ_REMOVE(&a->reply.channel->asides, a, link);
	uncount(a->reply.channel->session, &a->reply);
}

static void on_aside_done(struct waiter *w)
{
	struct reply *r = take_status(w);
	struct reply_aside *a = container_of(r, struct reply_aside, reply);

	r->is_done = true;
	if (r->channel) {
		leave_aside(a);
		a->on_done(a->ctx, r);
	}
	free_parts(r);
	mem_free(a);
}

struct reply *reply_create_aside(struct channel *ch, reply_aside_fn *on_done, void *ctx)
{
	struct reply_aside *a = mem_zalloc(sizeof(*a));

	a->reply.channel = ch;
	a->reply.service = ch->session->service;
	a->on_done = on_done;
	a->ctx = ctx;
	waiter_init(&a->reply.waiter, on_aside_done);
	TAILQ_INSERT_TAIL(&ch->asides, a, link);
	ch->session->pending++;
	return &a->reply;
}

void reply_aside_watch(struct reply *r, void (*on_hurry)(void *ctx))
{
	container_of(r, struct reply_aside, reply)->on_hurry = on_hurry;
}

static void drop_asides(struct channel *ch)
{
	struct reply gone = { .kind = REPLY_ERROR, .error = TIDE_ESHUTDOWN };
	char text[] = "the connection has ended";
	struct reply_aside *a;

	gone.text = text;
	while ((a = TAILQ_FIRST(&ch->asides)) != NULL) {
		leave_aside(a);
		a->reply.channel = NULL;
		a->on_done(a->ctx, &gone);
	}
}

struct reply *reply_create(struct channel *ch, bool is_quiet)
{
	struct service *s = ch->session->service;
	struct reply *r = pool_take(&s->replies);

	*r = (struct reply){ .channel = ch, .service = s, .is_quiet = is_quiet };
	waiter_init(&r->waiter, on_waiter_done);
	STAILQ_INSERT_TAIL(&ch->replies, r, link);
	ch->session->pending++;
	return r;
}

void reply_expect_document(struct reply *r)
{
	r->is_document = true;
	r->channel->session->documents++;
	r->channel->session->wants_document = false;
}

void reply_drop_all(struct channel *ch)
{
	struct session *s = ch->session;
	struct reply *r;

	while ((r = STAILQ_FIRST(&ch->replies)) != NULL) {
		STAILQ_REMOVE_HEAD(&ch->replies, link);
		uncount(s, r);
		r->channel = NULL;
		if (r->subscription)
			r->subscription->confirm = NULL;
		r->subscription = NULL;
		if (r->is_done)
			reply_free(r, &s->service->replies);
	}
	/* Callbacks finish some of these, unseen. */
	drop_asides(ch);
}

void reply_when_done(struct reply *r)
{
	waiter_done(&r->waiter, TIDE_OK, NULL);
}

void reply_ok(struct reply *r)
{
	r->kind = REPLY_OK;
	reply_when_done(r);
}

void reply_text(struct reply *r, const char *text)
{
	r->kind = REPLY_TEXT;
	r->text = mem_strdup(text);
	reply_when_done(r);
}

void reply_count(struct reply *r, uint64_t count)
{
	r->kind = REPLY_COUNT;
	r->count = count;
	reply_when_done(r);
}

void reply_counts(struct reply *r, uint64_t count, uint64_t second)
{
	r->kind = REPLY_COUNTS;
	r->count = count;
	r->id = second;
	reply_when_done(r);
}

void reply_json(struct reply *r, struct json *out)
{
	*out = (struct json){ .out = &r->data };
	if (!r->channel || r->is_written)
		return;
	r->is_written = true;
	r->channel->session->written++;
}

void reply_data(struct reply *r)
{
	struct error err;

	if (session_answer_check(r, 0, &err) < 0)
		reply_error(r, &err);
	else
		reply_data_bounded(r);
}

void reply_data_bounded(struct reply *r)
{
	r->kind = REPLY_DATA;
	reply_when_done(r);
}

void reply_data_take(struct reply *r, struct buf *data)
{
	r->data = *data;
	*data = (struct buf){ 0 };
	reply_data(r);
}

void reply_error(struct reply *r, const struct error *err)
{
	waiter_done(&r->waiter, err->code, err->text);
}

void reply_messages_take(struct reply *r, struct delivery *deliveries, uint64_t count)
{
	r->kind = REPLY_MESSAGES;
	r->deliveries = deliveries;
	r->count = count;
	reply_when_done(r);
}
