#include "service_events.h"

#include <string.h>

#include "access/network.h"
#include "base/mem.h"
#include "broker/exchange.h"
#include "broker/publish.h"
#include "broker/queue.h"
#include "session_private.h"
#include "warnings.h"

/* The next that may leave; NULL: none may. */
static struct event_message *next_event(const struct service *s)
{
	struct event_message *one;

	STAILQ_FOREACH (one, &s->broker->events.waiting, link)
		if (one->is_alarm || !s->is_blocked)
			return one;
	return NULL;
}

bool service_events_are_due(const struct service *s)
{
	return next_event(s) != NULL;
}

/* One queue refuses it, so no queue has it: the others are not to miss it. */
static void publish_each(const struct decide_spec *spec)
{
	struct published ignored;
	struct decision d;
	struct error err;

	if (decide(&d, spec, &err) == TIDE_OK)
		for (unsigned i = 0; i < d.first.count; i++)
			err.code = publish_to_queue(d.first.picks[i].queue, d.first.msg,
						    NULL, &ignored, &err);
	decide_deinit(&d);
}

/* What refuses it, a filter or a full queue, counts that as of any other publish. */
static void publish(struct broker *b, struct msg *m)
{
	struct exchange *x = b->events.exchange;
	struct decide_spec spec = { .exchange = x, .msg = m };
	struct published ignored;
	struct error err;
	int rc;

	m->id = broker_next_id(b);
	if (!m->id || !x)
		return;
	spec.vhost = x->vhost;
	rc = publish_message(&spec, false, NULL, &ignored, &err);
	if (rc == TIDE_EFULL || rc == TIDE_EBUSY)
		publish_each(&spec);
}

static void tell_lost(struct broker *b)
{
	struct events *e = &b->events;
	char number[EVENT_NUMBER_MAX];
	uint64_t lost = e->lost;

	if (lost == 0 || e->count == EVENTS_MAX)
		return;
	e->lost = 0;
	EVENT_TELL(b, EVENT_EVENTS_LOST, event_number(lost, number));
}

void service_events_turn(struct service *s)
{
	struct broker *b = s->broker;
	struct event_message *one;

	while ((one = next_event(s)) != NULL) {
		STAILQ_REMOVE(&b->events.waiting, one, event_message, link);
		b->events.count--;
		publish(b, one->msg);
		msg_unref(one->msg);
		mem_free(one);
		tell_lost(b);
		if (pace_is_spent(&b->pace, true))
			return;
	}
}

/* ---- alarms ------------------------------------------------------------------------ */

struct alarm_round {
	struct service *service;
	struct alarms now;
};

static bool has_code(const struct alarms *a, const char *code)
{
	for (unsigned i = 0; i < a->count; i++)
		if (strcmp(a->codes[i], code) == 0)
			return true;
	return false;
}

/* The texts of codes are constants. */
static void note_alarm(void *ctx, const char *code, const char *text)
{
	struct alarm_round *round = ctx;
	struct service *s = round->service;

	if (has_code(&round->now, code) || round->now.count == ALARMS_MAX)
		return;
	round->now.codes[round->now.count++] = code;
	if (!has_code(&s->alarms, code))
		EVENT_TELL(s->broker, EVENT_ALARM_BEGAN, slice_from(code),
			   slice_from(text));
}

void service_events_alarms(struct service *s)
{
	struct alarm_round round = { .service = s };

	/* Who comes to listen is told what there is. */
	if (!event_is_wanted(s->broker)) {
		s->alarms.count = 0;
		return;
	}
	service_health_each(s, note_alarm, &round);
	for (unsigned i = 0; i < s->alarms.count; i++)
		if (!has_code(&round.now, s->alarms.codes[i]))
			EVENT_TELL(s->broker, EVENT_ALARM_ENDED,
				   slice_from(s->alarms.codes[i]));
	s->alarms = round.now;
}

/* ---- connections and consumers ----------------------------------------------------- */

static void tell_connection(struct session *s, enum event_name kind)
{
	char number[EVENT_NUMBER_MAX];
	struct session_peer peer = { 0 };

	if (!event_is_wanted(s->broker))
		return;
	s->ops->facts(s->ctx, &peer);
	EVENT_TELL(s->broker, kind, event_number(s->number, number),
		   vhost_slice(s->vhost), { s->user, s->user_len }, slice_from(s->name),
		   slice_from(peer.address), slice_from(peer.protocol));
}

void service_events_opened(struct session *s)
{
	if (!s->is_told && !s->is_beside)
		tell_connection(s, EVENT_CONNECTION_OPENED);
	s->is_told = true;
}

void service_events_closed(struct session *s)
{
	if (s->is_told && !s->is_beside)
		tell_connection(s, EVENT_CONNECTION_CLOSED);
}

void service_events_refused(struct session *s, struct slice user, const struct error *why)
{
	struct session_peer peer = { 0 };

	if (!event_is_wanted(s->broker))
		return;
	s->ops->facts(s->ctx, &peer);
	EVENT_TELL(s->broker, EVENT_LOGIN_REFUSED, user, slice_from(s->name),
		   slice_from(peer.address), slice_from(peer.protocol),
		   slice_from(why->text));
}

void service_events_consumer(const struct subscription *sub, enum event_name kind)
{
	const struct session *s = sub->channel->session;
	const struct queue *q = sub->consumer.queue;
	char number[EVENT_NUMBER_MAX];

	if (q)
		EVENT_TELL(s->broker, kind, vhost_slice(q->vhost), queue_slice(q),
			   event_number(s->number, number), slice_from(sub->sid),
			   { s->user, s->user_len });
}
