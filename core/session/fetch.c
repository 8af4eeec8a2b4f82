#include "fetch.h"

#include "base/mem.h"
#include "broker/group.h"
#include "broker/queue.h"
#include "host/log.h"
#include "session_private.h"

/* Where the next message goes. The messages leave together, with the reply. */
static struct delivery *next_delivery(struct fetch *f)
{
	if (!f->deliveries)
		f->deliveries = mem_alloc(f->getter.max * sizeof(*f->deliveries));
	return &f->deliveries[f->getter.count];
}

static void on_deliver(struct consumer *c, struct entry *e, struct msg *head,
		       bool is_redelivered)
{
	struct fetch *f = fetch_of(c->getter);

	struct delivery *d = next_delivery(f);

	*d = channel_hand_out(f->channel, c, e, head, is_redelivered);
	msg_ref(e->msg);
	if (head)
		msg_ref(head);
}

static void on_record(struct consumer *c, const struct record_delivery *r)
{
	struct fetch *f = fetch_of(c->getter);
	struct msg *m = msg_create(&r->record->msg);

	if (!m) {
		log_warn("topic '%s': out of memory for a message of %zu bytes; a GET "
			 "leaves it out",
			 c->queue->name, r->record->msg.payload_len);
		return;
	}
	*next_delivery(f) = channel_delivery(r);
	next_delivery(f)->msg = m;
	f->getter.count++;
}

/* Who reads without a group sees it by the offsets. */
static void on_skipped(struct consumer *c, unsigned partition, uint64_t from, uint64_t to)
{
	if (c->getter->group->name)
		channel_tell_skipped(fetch_of(c->getter)->channel, "-",
				     &(struct channel_gap){ partition, from, to });
}

void fetch_drop(struct fetch *f)
{
	group_pull_leave(&f->getter);
	getter_remove(&f->getter);
	if (f->getter.lease)
		lease_close(f->getter.lease);
	TAILQ_REMOVE(&f->channel->fetches, f, channel_link);
	f->channel->session->reads -= f->is_read;
	msg_match_deinit(&f->match);
	mem_free(f);
}

static void on_answer(struct getter *g)
{
	struct fetch *f = fetch_of(g);
	struct reply *r = f->reply;
	struct delivery *deliveries = f->deliveries;
	uint32_t count = f->getter.count;

	fetch_drop(f);
	reply_messages_take(r, deliveries, count);
}

void fetch_refuse(struct fetch *f, const struct error *why)
{
	struct reply *r = f->reply;

	if (f->getter.count > 0) {
		on_answer(&f->getter);
		return;
	}
	fetch_drop(f);
	reply_error(r, why);
}

static void on_cancel(struct consumer *c)
{
	struct error err;

	error_set(&err, TIDE_ENOTFOUND, "%s '%s' was deleted",
		  definition_kind(c->queue->definition.table), c->queue->name);
	fetch_refuse(fetch_of(c->getter), &err);
}

static const struct consumer_ops ops = {
	.on_deliver = on_deliver,
	.on_record = on_record,
	.on_skipped = on_skipped,
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
		lease_init(&f->consumers[i].lease, ch->session->broker, &ch->holder,
			   &f->consumers[i]);
	}
	TAILQ_INSERT_TAIL(&ch->fetches, f, channel_link);
	return f;
}
