#include "stomp_destination.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/percent.h"
#include "session/session.h"
#include "stomp.h"

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
	/* They say how RabbitMQ keeps a queue; there is only one way here. */
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

/* What RabbitMQ does not know as one of a queue. */
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

void stomp_destination_free_options(struct stomp_options *o)
{
	args_deinit(&o->args);
}

static const struct args no_args;

int stomp_destination_declare(struct stomp *l, struct stomp_channel *ch,
			      struct stomp_frame *f, const struct declare_spec *spec)
{
	struct reply *r = stomp_channel_part(l, ch, f);

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
	return stomp_destination_declare(l, ch, f, &spec);
}

int stomp_destination_bind(struct stomp *l, struct stomp_channel *ch,
			   struct stomp_frame *f, struct slice queue,
			   const struct stomp_destination *d)
{
	const struct bind_spec spec = { .dest = queue,
					.exchange = d->exchange,
					.pattern = d->key,
					.args = &no_args };
	struct session_facts facts = session_facts(l->base.session);
	struct reply *r = stomp_channel_part(l, ch, f);

	f->rc = session_define_bind(l->base.session, &spec, r, f->err);
	if (f->rc == TIDE_ENOTFOUND)
		stomp_frame_explain(f, "not_found",
				    "NOT_FOUND - no exchange '%" SLICE_FMT
				    "' in vhost '%" SLICE_FMT "'\n",
				    SLICE_ARG(d->exchange), SLICE_ARG(facts.vhost));
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}
