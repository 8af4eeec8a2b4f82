#include "stomp_subscribe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/decimal.h"
#include "base/mem.h"
#include "base/percent.h"
#include "stomp_destination.h"

#define QUEUE_TEXT_MAX (NAME_LEN_MAX + 1)

/* A SUBSCRIBE on its way. */
struct subscribing {
	struct stomp_frame *f;
	struct stomp_channel *ch;
	struct stomp_destination destination;
	struct stomp_options options;
	struct subscribe_spec spec;
	char queue[QUEUE_TEXT_MAX];
	char room[STOMP_DESTINATION_MAX];
};

static struct slice copy(struct slice s)
{
	return (struct slice){ mem_strndup(s.data, s.len), s.len };
}

/* A channel for the subscription. */
static int open_channel(struct stomp *l, struct stomp_frame *f, struct slice id,
			struct stomp_channel **out)
{
	if (stomp_channel_find(l, id)) {
		f->rc = error_set(f->err, TIDE_EEXISTS,
				  "this connection has a subscription '%.*s' already",
				  SLICE_HEAD(id, 64));
		/* T_ is what it puts before an id. */
		return stomp_frame_explain(f, "Duplicated subscription identifier",
					   "A subscription identified by 'T_%" SLICE_FMT
					   "' already exists.",
					   SLICE_ARG(id));
	}
	if (stomp_channel_open(l, f, out) == TIDE_OK)
		(*out)->id = copy(id);
	return f->rc;
}

/* What LIST consumers shows. */
static struct slice sid_of(const struct stomp_channel *ch, char number[DECIMAL_MAX])
{
	if (slice_is_name(ch->id) && !slice_is(ch->id, "-"))
		return ch->id;
	return (struct slice){ number,
			       (size_t)(decimal_put(number, ch->number) - number) };
}

/* ---- which queue --------------------------------------------------------------------
 */

static int name_queue(struct subscribing *s, const char *format, ...) TIDE_PRINTF(2, 3);

static int name_queue(struct subscribing *s, const char *format, ...)
{
	struct slice name = s->options.name;
	va_list args;
	int len;

	va_start(args, format);
	if (name.data)
		len = snprintf(s->queue, sizeof(s->queue), "%" SLICE_FMT,
			       SLICE_ARG(name));
	else
		len = vsnprintf(s->queue, sizeof(s->queue), format, args);
	va_end(args);
	if (len < QUEUE_TEXT_MAX && slice_is_name(slice_from(s->queue)) &&
	    strcmp(s->queue, "-") != 0)
		return TIDE_OK;
	return s->f->rc = error_set(
		       s->f->err, TIDE_ESYNTAX,
		       "the name of the subscription's queue, '%.64s…', is none: 1-255 "
		       "bytes without white space; the header x-queue-name sets it",
		       s->queue);
}

/* A part of a name of parts, with a ':' between them. */
static void add_part(struct buf *name, struct slice part)
{
	while (part.len > 0) {
		size_t run = slice_find(part, ':');

		percent_encode(name, (struct slice){ part.data, run });
		if (run < part.len)
			buf_append_text(name, "%3A");
		part = slice_skip(part, run < part.len ? run + 1 : run);
	}
}

/* In 1.0 a subscription has an id if its client wants one. */
static int need_id(struct stomp_frame *f)
{
	if (stomp_frame_header(f, STOMP_H_ID).len > 0)
		return TIDE_OK;
	f->rc = error_set(
		f->err, TIDE_ESYNTAX,
		"a durable subscription needs a header 'id': it is how the next "
		"one is known to be the same");
	return stomp_frame_explain(f, "Missing Header", NULL);
}

/* Another client, id or destination has another queue: what was bound before would bring
 * messages of somebody else. */
static int name_durable(const struct stomp *l, struct subscribing *s)
{
	const struct stomp_destination *d = &s->destination;
	struct buf name = { 0 };

	buf_append_text(&name, "stomp-subscription-");
	if (l->client_id)
		add_part(&name, slice_from(l->client_id));
	buf_append_char(&name, ':');
	add_part(&name, s->ch->id);
	if (slice_is(d->exchange, STOMP_TOPIC_EXCHANGE)) {
		buf_append_text(&name, ":topic:");
	} else {
		buf_append_text(&name, ":exchange:");
		add_part(&name, d->exchange);
		buf_append_char(&name, ':');
	}
	add_part(&name, d->key);
	name_queue(s, "%" SLICE_FMT, SLICE_ARG(buf_slice(&name)));
	buf_deinit(&name);
	return s->f->rc;
}

/* The queue goes with its subscription. Somebody else may share one that has a name. */
static int add_private(struct subscribing *s)
{
	struct args *args = &s->options.args;
	int rc = TIDE_OK;

	if (!args_get(args, "durable"))
		rc = args_add(args, SLICE("durable"), SLICE("0"));
	if (rc == TIDE_OK && !args_get(args, "auto-delete"))
		rc = args_add(args, SLICE("auto-delete"), SLICE("1"));
	if (rc == TIDE_OK && !args_get(args, "exclusive") && !s->options.name.data)
		rc = args_add(args, SLICE("exclusive"), SLICE("1"));
	if (rc < 0)
		s->f->rc = error_set(s->f->err, rc, "too many options");
	return rc;
}

/* A queue that gets what is published to an exchange from now on: of this connection
 * alone, or durable, for whoever subscribes to the same with this id. */
static int declare_bound(struct stomp *l, struct subscribing *s)
{
	struct declare_spec spec = { .kind = DEFINE_QUEUE, .args = &s->options.args };
	bool is_durable = stomp_frame_flag(s->f, STOMP_H_DURABLE, false) &&
			  !stomp_frame_flag(s->f, STOMP_H_AUTO_DELETE, false);
	int rc;

	if (is_durable)
		rc = need_id(s->f) < 0 ? s->f->rc : name_durable(l, s);
	else
		rc = name_queue(s, "stomp-%u-%" PRIu64 "-%u",
				session_facts(l->base.session).node,
				session_facts(l->base.session).number, s->ch->number);
	if (rc == TIDE_OK && !is_durable)
		rc = add_private(s);
	spec.name = slice_from(s->queue);
	if (rc == TIDE_OK)
		rc = stomp_destination_declare(l, s->ch, s->f, &spec);
	if (rc == TIDE_OK)
		rc = stomp_destination_bind(l, s->ch, s->f, spec.name, &s->destination);
	return rc;
}

static int declare_queue(struct stomp *l, struct subscribing *s)
{
	struct slice name = s->destination.key;

	if (name_queue(s, "%" SLICE_FMT, SLICE_ARG(name)) < 0)
		return s->f->rc;
	if (s->destination.place == STOMP_AMQ_QUEUE)
		return TIDE_OK;
	return stomp_destination_ensure_queue(l, s->ch, s->f, name, &s->options);
}

static int declare_temp(struct stomp *l, struct stomp_channel *ch, struct stomp_frame *f,
			struct slice name, struct slice *queue)
{
	struct session_facts facts = session_facts(l->base.session);
	struct declare_spec spec = { .kind = DEFINE_QUEUE };
	char text[2 * NAME_LEN_MAX];
	struct stomp_temp *t;
	struct args args = { 0 };
	int rc;

	HASH_FIND(hh, l->temps, name.data, name.len, t);
	if (t) {
		*queue = slice_from(t->queue);
		return TIDE_OK;
	}
	spec.name.len = (size_t)snprintf(text, sizeof(text),
					 "stomp-temp-%u-%" PRIu64 "-%" SLICE_FMT,
					 facts.node, facts.number, SLICE_ARG(name));
	spec.name.data = text;
	spec.args = &args;
	if (spec.name.len > NAME_LEN_MAX)
		return f->rc = error_set(f->err, TIDE_ETOOLONG,
					 "the name of a temporary queue is too long");
	rc = args_add(&args, SLICE("durable"), SLICE("0"));
	if (rc == TIDE_OK)
		rc = args_add(&args, SLICE("exclusive"), SLICE("1"));
	if (rc == TIDE_OK)
		rc = stomp_destination_declare(l, ch, f, &spec);
	args_deinit(&args);
	if (rc < 0)
		return rc;
	t = mem_zalloc(sizeof(*t) + name.len + 1);
	memcpy(t->name, name.data, name.len);
	t->queue = mem_strndup(text, spec.name.len);
	HASH_ADD_KEYPTR(hh, l->temps, t->name, name.len, t);
	*queue = slice_from(t->queue);
	return TIDE_OK;
}

void stomp_subscribe_deinit(struct stomp *l)
{
	struct stomp_temp *t, *next;

	HASH_ITER (hh, l->temps, t, next) {
		HASH_DEL(l->temps, t);
		mem_free(t->queue);
		mem_free(t);
	}
}

static int find_queue(struct stomp *l, struct subscribing *s)
{
	struct slice queue;

	switch (s->destination.place) {
	case STOMP_QUEUE:
	case STOMP_AMQ_QUEUE:
		return declare_queue(l, s);
	case STOMP_EXCHANGE:
	case STOMP_TOPIC:
		return declare_bound(l, s);
	case STOMP_TEMP_QUEUE:
		if (declare_temp(l, s->ch, s->f, s->destination.key, &queue) < 0)
			return s->f->rc;
		return name_queue(s, "%" SLICE_FMT, SLICE_ARG(queue));
	default:
		return s->f->rc =
			       error_set(s->f->err, TIDE_EDENIED,
					 "/reply-queue/ is for SEND; its messages go to "
					 "the connection that sent the request");
	}
}

/* ---- SUBSCRIBE ------------------------------------------------------------------------
 */

static void read_ack(struct subscribing *s)
{
	struct slice ack = stomp_frame_header(s->f, STOMP_H_ACK);

	s->ch->is_auto = !ack.data || slice_is(ack, "auto");
	s->ch->is_cumulative = slice_is(ack, "client");
	if (!s->ch->is_auto && !s->ch->is_cumulative &&
	    !slice_is(ack, "client-individual"))
		stomp_frame_refuse(s->f, STOMP_H_ACK,
				   "auto, client or client-individual");
	s->spec.is_auto_ack = s->ch->is_auto;
}

static int read_spec(struct subscribing *s)
{
	static const struct number_limits prefetch = { 0, STOMP_PREFETCH_MAX },
					  partition = { 0, 63 },
					  lease = { MSG_ACK_TIMEOUT_MIN_MS,
						    MSG_ACK_TIMEOUT_MAX_MS };
	struct stomp_frame *f = s->f;
	struct slice from = stomp_frame_header(f, STOMP_H_FROM),
		     group = stomp_frame_header(f, STOMP_H_GROUP);

	read_ack(s);
	s->spec.prefetch = (uint32_t)stomp_frame_uint(f, STOMP_H_PREFETCH_COUNT, prefetch,
						      STOMP_PREFETCH_DEFAULT);
	if (s->spec.prefetch == 0)
		s->spec.prefetch = UINT32_MAX;
	s->spec.ack_timeout_ms =
		(uint32_t)stomp_frame_duration(f, STOMP_H_ACK_TIMEOUT, lease);
	s->spec.rank = SUBSCRIBE_RANK_MAX;
	s->spec.partition = -1;
	if (stomp_frame_header(f, STOMP_H_PARTITION).data)
		s->spec.partition =
			(int64_t)stomp_frame_uint(f, STOMP_H_PARTITION, partition, 0);
	if (group.data && !slice_is_name(group))
		stomp_frame_refuse(f, STOMP_H_GROUP, "the name of a group");
	s->spec.group = group;
	if (f->rc == TIDE_OK && from.data)
		f->rc = position_parse(from, &s->spec.from, f->err);
	if (f->rc == TIDE_OK && stomp_frame_header(f, STOMP_H_SELECTOR).len > 0)
		f->rc = error_set(f->err, TIDE_ESYNTAX,
				  "there are no selectors: subscribe to a pattern of an "
				  "exchange, or route by headers");
	return f->rc;
}

/* The session's part: from here on messages may come. */
static int begin(struct stomp *l, struct stomp_channel *ch, struct stomp_frame *f,
		 const struct subscribe_spec *spec, struct reply *r)
{
	f->rc = session_consume_subscribe(stomp_channel_session(l, ch), spec, r, f->err);
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}

static int subscribe(struct stomp *l, struct subscribing *s)
{
	char number[DECIMAL_MAX];

	if (find_queue(l, s) < 0)
		return s->f->rc;
	s->spec.queue = slice_from(s->queue);
	s->spec.sid = sid_of(s->ch, number);
	s->spec.priority = s->options.priority;
	if (s->options.from.kind)
		s->spec.from = s->options.from;
	return begin(l, s->ch, s->f, &s->spec, stomp_channel_reply(l, s->ch, s->f));
}

int stomp_subscribe(struct stomp *l, struct stomp_frame *f)
{
	struct slice destination = stomp_frame_need(f, STOMP_H_DESTINATION),
		     id = stomp_frame_header(f, STOMP_H_ID);
	struct subscribing s = { .f = f };

	if (l->version != STOMP_1_0)
		stomp_frame_need(f, STOMP_H_ID);
	if (id.len > NAME_LEN_MAX)
		stomp_frame_refuse(f, STOMP_H_ID, "%d bytes at most", NAME_LEN_MAX);
	if (f->rc < 0)
		return f->rc;
	if (stomp_destination_read(f, destination, s.room, &s.destination) < 0 ||
	    open_channel(l, f, id.len ? id : destination, &s.ch) < 0 ||
	    read_spec(&s) < 0 || stomp_destination_read_options(&s.options, f) < 0)
		return f->rc;
	s.ch->destination = copy(destination);
	if (id.len) {
		buf_append_text(&s.ch->subscription, "subscription:");
		stomp_frame_escape(&s.ch->subscription, id, l->version);
		buf_append_char(&s.ch->subscription, '\n');
	}
	subscribe(l, &s);
	if (f->rc == TIDE_OK && slice_from(s.queue).len)
		s.ch->queue = mem_strdup(s.queue);
	stomp_destination_free_options(&s.options);
	return f->rc;
}

int stomp_subscribe_temp(struct stomp *l, struct stomp_frame *f, struct slice destination,
			 struct slice *queue)
{
	char room[STOMP_DESTINATION_MAX], number[DECIMAL_MAX];
	struct subscribe_spec spec = { .prefetch = STOMP_PREFETCH_DEFAULT,
				       .rank = SUBSCRIBE_RANK_MAX,
				       .is_auto_ack = true,
				       .partition = -1 };
	struct stomp_destination d;
	struct stomp_channel *ch;
	struct stomp_temp *t;

	if (stomp_destination_read(f, destination, room, &d) < 0)
		return f->rc;
	HASH_FIND(hh, l->temps, d.key.data, d.key.len, t);
	if (t) {
		*queue = slice_from(t->queue);
		return TIDE_OK;
	}
	if (open_channel(l, f, destination, &ch) < 0 ||
	    declare_temp(l, ch, f, d.key, queue) < 0)
		return f->rc;
	ch->is_auto = true;
	buf_append_text(&ch->subscription, "subscription:");
	stomp_frame_escape(&ch->subscription, destination, l->version);
	buf_append_char(&ch->subscription, '\n');
	spec.queue = *queue;
	spec.sid = sid_of(ch, number);
	return begin(l, ch, f, &spec, stomp_channel_part(l, ch, f));
}

/* ---- UNSUBSCRIBE
 * ----------------------------------------------------------------------- */

/* The subscription ends; what it holds stays with its channel.
 *
 * @param is_delete  the queue of a durable subscription goes with it */
static int end_subscription(struct stomp *l, struct stomp_channel *ch,
			    struct stomp_frame *f, bool is_delete)
{
	const struct delete_spec spec = { .kind = DEFINE_QUEUE,
					  .name = slice_from(ch->queue) };
	char number[DECIMAL_MAX];
	struct reply *r =
		is_delete ? stomp_channel_part(l, ch, f) : stomp_channel_reply(l, ch, f);

	f->rc = session_consume_unsubscribe(stomp_channel_session(l, ch),
					    sid_of(ch, number), r, f->err);
	if (f->rc < 0)
		return stomp_channel_fail(ch, f, r);
	if (!is_delete)
		return TIDE_OK;
	r = stomp_channel_reply(l, ch, f);
	f->rc = session_define_delete(l->base.session, &spec, r, f->err);
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}

int stomp_subscribe_end(struct stomp *l, struct stomp_frame *f)
{
	struct slice id = stomp_frame_header(f, STOMP_H_ID),
		     destination = stomp_frame_header(f, STOMP_H_DESTINATION);
	bool is_delete = stomp_frame_flag(f, STOMP_H_DURABLE, false);
	struct stomp_channel *ch;

	if (l->version != STOMP_1_0 || (!id.len && !destination.len))
		id = stomp_frame_need(f, STOMP_H_ID);
	if (f->rc < 0)
		return f->rc;
	ch = stomp_channel_find(l, id.len ? id : destination);
	if (!ch) {
		f->rc = error_set(f->err, TIDE_ENOTFOUND,
				  "this connection has no subscription '%.*s'",
				  SLICE_HEAD(id.len ? id : destination, 64));
		return stomp_frame_explain(f, "No subscription found", NULL);
	}
	is_delete = is_delete && (slice_has_prefix(ch->destination, "/topic/") ||
				  slice_has_prefix(ch->destination, "/exchange/"));
	if (end_subscription(l, ch, f, is_delete) < 0)
		return f->rc;
	ch->is_ended = true;
	stomp_channel_release(l, ch, f);
	return TIDE_OK;
}
