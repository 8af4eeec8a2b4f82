#include "fetch.h"

#include "base/mem.h"
#include "broker/queue.h"
#include "session_private.h"

/* The messages leave together, with the reply. */
static void on_deliver(struct consumer *c, struct entry *e, bool is_redelivered)
{
	struct fetch *f = fetch_of(c->getter);

	if (!f->deliveries)
		f->deliveries = mem_alloc(f->getter.max * sizeof(*f->deliveries));
	f->deliveries[f->getter.count] =
		channel_hand_out(f->channel, c, e, is_redelivered);
	msg_ref(e->msg);
}

static void destroy(struct fetch *f)
{
	getter_remove(&f->getter);
	TAILQ_REMOVE(&f->channel->fetches, f, channel_link);
	msg_match_deinit(&f->match);
	mem_free(f);
}

static void on_answer(struct getter *g)
{
	struct fetch *f = fetch_of(g);
	struct reply *r = f->reply;
	struct delivery *deliveries = f->deliveries;
	uint32_t count = f->getter.count;

	destroy(f);
	reply_messages_take(r, deliveries, count);
}

static void on_cancel(struct consumer *c)
{
	struct fetch *f = fetch_of(c->getter);
	struct reply *r = f->reply;
	struct error err;

	error_set(&err, TIDE_ENOTFOUND, "queue '%s' was deleted", c->queue->name);
	destroy(f);
	reply_error(r, &err);
}

static const struct consumer_ops ops = {
	.on_deliver = on_deliver,
	.on_cancel = on_cancel,
};

struct fetch *fetch_create(struct channel *ch, unsigned consumer_count, struct reply *r)
{
	struct fetch *f =
		mem_zalloc(sizeof(*f) + consumer_count * sizeof(struct consumer));

	f->channel = ch;
	f->reply = r;
	f->getter.broker = ch->session->broker;
	f->getter.on_answer = on_answer;
	f->getter.consumers = f->consumers;
	f->getter.consumer_count = consumer_count;
	for (unsigned i = 0; i < consumer_count; i++) {
		f->consumers[i].ops = &ops;
		f->consumers[i].getter = &f->getter;
	}
	TAILQ_INSERT_TAIL(&ch->fetches, f, channel_link);
	return f;
}
