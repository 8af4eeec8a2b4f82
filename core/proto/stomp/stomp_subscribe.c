#include "stomp.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/decimal.h"
#include "base/mem.h"
#include "base/percent.h"

#define SHOWN 80

static const struct place {
	const char *prefix;
	enum stomp_place place;
	const char *kind; /* what RabbitMQ calls it */
} places[] = {
	{ "/queue/", STOMP_QUEUE, "queue" },
	{ "/topic/", STOMP_TOPIC, "topic" },
	{ "/exchange/", STOMP_EXCHANGE, "exchange" },
	{ "/amq/queue/", STOMP_AMQ_QUEUE, "amqqueue" },
	{ "/temp-queue/", STOMP_TEMP_QUEUE, "temp_queue" },
	{ "/reply-queue/", STOMP_REPLY_QUEUE, "reply_queue" },
};

static int refuse_text(struct slice text, const char *why, struct error *err)
{
	return error_set(err, TIDE_ESYNTAX, "the destination '%.*s' %s",
			 SLICE_HEAD(text, SHOWN), why);
}

/* The next part, decoded, into the room. */
static int read_name(struct slice text, struct slice part, char **room, struct slice *out,
		     struct error *err)
{
	size_t len;

	if (percent_decode(part, *room, &len) < 0)
		return refuse_text(text, "has a '%' that two hex digits do not follow",
				   err);
	*out = (struct slice){ *room, len };
	*room += len;
	if (!slice_is_name(*out) || slice_is(*out, "-"))
		return refuse_text(
			text,
			"has a name that is none: 1-255 bytes of UTF-8 without "
			"white space and control characters",
			err);
	return TIDE_OK;
}

static int read_parts(const struct place *p, struct slice text, char *room,
		      struct stomp_destination *out, struct error *err)
{
	struct slice rest = slice_skip(text, strlen(p->prefix)), part;

	*out = (struct stomp_destination){ .place = p->place,
					   .exchange = SLICE(""),
					   .key = SLICE("") };
	if (p->place == STOMP_REPLY_QUEUE) {
		if (!slice_is_name(rest))
			return refuse_text(text, "names no queue", err);
		/* The text is input, which others overwrite. */
		memcpy(room, rest.data, rest.len);
		out->key = (struct slice){ room, rest.len };
		return TIDE_OK;
	}
	part = slice_cut(&rest, '/');
	if (p->place == STOMP_TOPIC)
		out->exchange = SLICE(STOMP_TOPIC_EXCHANGE);
	if (p->place != STOMP_EXCHANGE && rest.len > 0)
		return refuse_text(
			text, "has too many parts; a '/' in a name is written %2F", err);
	if (p->place != STOMP_EXCHANGE)
		return read_name(text, part, &room, &out->key, err);
	if (read_name(text, part, &room, &out->exchange, err) < 0)
		return err->code;
	if (memchr(rest.data, '/', rest.len))
		return refuse_text(
			text, "has too many parts; a '/' in a name is written %2F", err);
	return rest.len ? read_name(text, rest, &room, &out->key, err) : TIDE_OK;
}

int stomp_destination_parse(struct slice text, char *room, struct stomp_destination *out,
			    struct error *err)
{
	if (text.len > STOMP_DESTINATION_MAX)
		return error_set(err, TIDE_ETOOLONG, "a destination has at most %d bytes",
				 STOMP_DESTINATION_MAX);
	*out = (struct stomp_destination){ .place = STOMP_QUEUE, .exchange = SLICE("") };
	if (!memchr(text.data, '/', text.len))
		return read_name(text, text, &room, &out->key, err);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (slice_has_prefix(text, places[i].prefix))
			return read_parts(&places[i], text, room, out, err);
	return refuse_text(
		text,
		"is none: expected /queue/<name>, /topic/<key>, "
		"/exchange/<name>/<key>, /amq/queue/<name>, /temp-queue/<name> or "
		"/reply-queue/<name>",
		err);
}

/* "/queue" is a wrong one of a queue, as "/queue/a/b". */
static bool begins_with(struct slice text, const char *prefix)
{
	size_t len = strlen(prefix) - 1;

	return slice_has_prefix(text, prefix) ||
	       (text.len == len && memcmp(text.data, prefix, len) == 0);
}

int stomp_destination_read(struct stomp_frame *f, struct slice text, char *room,
			   struct stomp_destination *out)
{
	f->rc = stomp_destination_parse(text, room, out, f->err);
	if (f->rc == TIDE_OK)
		return TIDE_OK;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (begins_with(text, places[i].prefix))
			stomp_frame_explain(
				f, "Invalid destination",
				"'%" SLICE_FMT "' is not a valid %s destination\n",
				SLICE_ARG(slice_skip(text, strlen(places[i].prefix) - 1)),
				places[i].kind);
	return stomp_frame_explain(f, "Unknown destination", NULL);
}

static int refuse_option(struct stomp_frame *f, const struct msg_header *h,
			 const char *expected)
{
	return f->rc = error_set(f->err, TIDE_ESYNTAX, "header %.*s:%.*s: expected %s",
				 SLICE_HEAD(h->name, SHOWN), SLICE_HEAD(h->value, SHOWN),
				 expected);
}

static int add(struct stomp_options *o, struct stomp_frame *f, struct slice name,
	       struct slice value)
{
	int rc = args_add(&o->args, name, value);

	if (rc < 0)
		f->rc = error_set(
			f->err, TIDE_ESYNTAX,
			"the option '%.*s' is given twice, or its name or value "
			"cannot be stored",
			SLICE_HEAD(name, SHOWN));
	return f->rc;
}

static int read_overflow(struct stomp_options *o, struct stomp_frame *f,
			 const struct msg_header *h)
{
	if (slice_is(h->value, "reject-publish"))
		return add(o, f, SLICE("overflow"), SLICE("reject"));
	if (slice_is(h->value, "drop-head") || slice_is(h->value, "reject") ||
	    slice_is(h->value, "dead-letter") || slice_is(h->value, "drop-lowest") ||
	    slice_is(h->value, "dead-letter-lowest"))
		return add(o, f, SLICE("overflow"), h->value);
	return refuse_option(f, h,
			     "drop-head, reject-publish, dead-letter, drop-lowest or "
			     "dead-letter-lowest");
}

static int read_dead_letter(struct stomp_options *o, struct stomp_frame *f,
			    const struct msg_header *h)
{
	struct slice key = stomp_frame_other(f, "x-dead-letter-routing-key");
	struct buf target = { 0 };

	buf_append_slice(&target, h->value.len ? h->value : SLICE("-"));
	if (key.len)
		buf_printf(&target, "/%" SLICE_FMT, SLICE_ARG(key));
	add(o, f, SLICE("dead-letter"), buf_slice(&target));
	buf_deinit(&target);
	return f->rc;
}

static int read_single_active(struct stomp_options *o, struct stomp_frame *f,
			      const struct msg_header *h)
{
	bool flag;

	if (!stomp_frame_read_flag(h->value, &flag))
		return refuse_option(f, h, "true or false");
	return flag ? add(o, f, SLICE("single-active"), SLICE("1")) : TIDE_OK;
}

static int read_max_priority(struct stomp_options *o, struct stomp_frame *f,
			     const struct msg_header *h)
{
	(void)h;
	return add(o, f, SLICE("priority"), SLICE("strict"));
}

static int read_type(struct stomp_options *o, struct stomp_frame *f,
		     const struct msg_header *h)
{
	o->is_topic = slice_is(h->value, "stream");
	if (o->is_topic)
		return add(o, f, SLICE("partitions"), SLICE("1"));
	if (slice_is(h->value, "classic") || slice_is(h->value, "quorum"))
		return TIDE_OK;
	return refuse_option(f, h, "classic, quorum or stream");
}

static int read_priority(struct stomp_options *o, struct stomp_frame *f,
			 const struct msg_header *h)
{
	bool is_negative = h->value.len > 0 && h->value.data[0] == '-';
	uint64_t n;

	/* A number is the consumer's, a word is the script of the queue. */
	if (!slice_to_uint(slice_skip(h->value, is_negative), SUBSCRIBE_PRIORITY_MAX, &n))
		return is_negative || h->value.len == 0
			       ? refuse_option(f, h, "a number from -1000 to 1000")
			       : add(o, f, SLICE("priority"), h->value);
	o->priority = is_negative ? -(int32_t)n : (int32_t)n;
	return TIDE_OK;
}

static int read_offset(struct stomp_options *o, struct stomp_frame *f,
		       const struct msg_header *h)
{
	struct slice value = h->value;

	if (slice_is(value, "next"))
		value = SLICE("last");
	else if (slice_has_prefix(value, "offset="))
		value = slice_skip(value, strlen("offset="));
	return f->rc = position_parse(value, &o->from, f->err);
}

/* RabbitMQ's options of a queue. */
static const struct known_option {
	const char *header;
	const char *option; /* ours, with the same value; or else: */
	int (*read)(struct stomp_options *o, struct stomp_frame *f,
		    const struct msg_header *h); /* NULL: it has no effect */
} known[] = {
	{ "x-message-ttl", "ttl", NULL },
	{ "x-expires", "expires", NULL },
	{ "x-max-length", "max-length", NULL },
	{ "x-max-length-bytes", "max-bytes", NULL },
	{ "x-delivery-limit", "delivery-limit", NULL },
	{ "x-dead-letter-exchange", NULL, read_dead_letter },
	{ "x-overflow", NULL, read_overflow },
	{ "x-single-active-consumer", NULL, read_single_active },
	{ "x-queue-type", NULL, read_type },
	{ "x-max-priority", NULL, read_max_priority },
	/* Read with the exchange. */
	{ "x-dead-letter-routing-key", NULL, NULL },
	/* RabbitMQ's ways to keep a queue; there is only one way here. */
	{ "x-queue-mode", NULL, NULL },
	{ "x-queue-version", NULL, NULL },
	{ "x-queue-leader-locator", NULL, NULL },
	{ "x-queue-master-locator", NULL, NULL },
	{ "x-quorum-initial-group-size", NULL, NULL },
	{ "x-initial-cluster-size", NULL, NULL },
	{ "x-cancel-on-ha-failover", NULL, NULL },
	{ "x-dead-letter-strategy", NULL, NULL },
};

static const struct known_option *find_known(struct slice name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (slice_is(name, known[i].header))
			return &known[i];
	return NULL;
}

bool stomp_destination_is_option(struct slice name)
{
	return find_known(name) != NULL;
}

/* Read an option that RabbitMQ does not know as one of a queue. */
static int read_other(struct stomp_options *o, struct stomp_frame *f,
		      const struct msg_header *h)
{
	if (slice_is(h->name, "x-priority"))
		return read_priority(o, f, h);
	if (slice_is(h->name, "x-stream-offset"))
		return read_offset(o, f, h);
	if (slice_is(h->name, "x-queue-name"))
		o->name = h->value;
	else
		add(o, f, slice_skip(h->name, 2), h->value);
	return f->rc;
}

static int read_option(struct stomp_options *o, struct stomp_frame *f,
		       const struct msg_header *h)
{
	const struct known_option *k = find_known(h->name);

	if (!k)
		return f->verb == STOMP_SEND ? TIDE_OK : read_other(o, f, h);
	if (k->option)
		return add(o, f, slice_from(k->option), h->value);
	return k->read ? k->read(o, f, h) : TIDE_OK;
}

/* A queue of RabbitMQ that is full drops its oldest message unless it says otherwise. */
static void read_default_overflow(struct stomp_options *o, struct stomp_frame *f)
{
	if (f->rc == TIDE_OK && !args_get(&o->args, "overflow") &&
	    (args_get(&o->args, "max-length") || args_get(&o->args, "max-bytes")))
		add(o, f, SLICE("overflow"), SLICE("drop-head"));
}

int stomp_destination_read_options(struct stomp_options *o, struct stomp_frame *f)
{
	*o = (struct stomp_options){ .name = { NULL, 0 } };
	for (unsigned i = 0; i < f->count && f->rc == TIDE_OK; i++)
		if (slice_has_prefix(f->others[i].name, "x-"))
			read_option(o, f, &f->others[i]);
	read_default_overflow(o, f);
	if (!stomp_frame_flag(f, STOMP_H_DURABLE, true) && f->rc == TIDE_OK)
		add(o, f, SLICE("durable"), SLICE("0"));
	if (stomp_frame_flag(f, STOMP_H_AUTO_DELETE, false) && f->rc == TIDE_OK)
		add(o, f, SLICE("auto-delete"), SLICE("1"));
	if (stomp_frame_flag(f, STOMP_H_EXCLUSIVE, false) && f->rc == TIDE_OK)
		add(o, f, SLICE("exclusive"), SLICE("1"));
	if (f->rc < 0)
		args_deinit(&o->args);
	return f->rc;
}

static const struct args no_args;

static int declare_part(struct stomp *l, struct stomp_channel *ch, struct stomp_frame *f,
			const struct declare_spec *spec)
{
	struct reply *r = stomp_channel_reply(l, ch, f, true);

	f->rc = session_define_declare(l->base.session, spec, r, f->err);
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}

int stomp_destination_ensure_queue(struct stomp *l, struct stomp_channel *ch,
				   struct stomp_frame *f, struct slice name,
				   const struct stomp_options *options)
{
	const struct declare_spec spec = { .kind = options->is_topic ? DEFINE_TOPIC
								     : DEFINE_QUEUE,
					   .name = name,
					   .args = &options->args };

	if (options->args.count == 0 && session_define_exists(l->base.session, name))
		return TIDE_OK;
	return declare_part(l, ch, f, &spec);
}

static int bind_queue(struct stomp *l, struct stomp_channel *ch, struct stomp_frame *f,
		      struct slice queue, const struct stomp_destination *d)
{
	const struct bind_spec spec = { .dest = queue,
					.exchange = d->exchange,
					.pattern = d->key,
					.args = &no_args };
	struct session_facts facts = session_facts(l->base.session);
	struct reply *r = stomp_channel_reply(l, ch, f, true);

	f->rc = session_define_bind(l->base.session, &spec, r, f->err);
	if (f->rc == TIDE_ENOTFOUND)
		stomp_frame_explain(f, "not_found",
				    "NOT_FOUND - no exchange '%" SLICE_FMT
				    "' in vhost '%" SLICE_FMT "'\n",
				    SLICE_ARG(d->exchange), SLICE_ARG(facts.vhost));
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}

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

/* The sid that LIST consumers shows. */
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
		rc = declare_part(l, s->ch, s->f, &spec);
	if (rc == TIDE_OK)
		rc = bind_queue(l, s->ch, s->f, spec.name, &s->destination);
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
		rc = declare_part(l, ch, f, &spec);
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
	return begin(l, s->ch, s->f, &s->spec,
		     stomp_channel_reply(l, s->ch, s->f, false));
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
	args_deinit(&s.options.args);
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
	return begin(l, ch, f, &spec, stomp_channel_reply(l, ch, f, true));
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
	struct reply *r = stomp_channel_reply(l, ch, f, is_delete);

	f->rc = session_consume_unsubscribe(stomp_channel_session(l, ch),
					    sid_of(ch, number), r, f->err);
	if (f->rc < 0)
		return stomp_channel_fail(ch, f, r);
	if (!is_delete)
		return TIDE_OK;
	r = stomp_channel_reply(l, ch, f, false);
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
