#include "stomp_destination.h"

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

static int refuse(struct slice text, const char *why, struct error *err)
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
		return refuse(text, "has a '%' that two hex digits do not follow", err);
	*out = (struct slice){ *room, len };
	*room += len;
	if (!slice_is_name(*out) || slice_is(*out, "-"))
		return refuse(text,
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
			return refuse(text, "names no queue", err);
		/* The text is input, which others overwrite. */
		memcpy(room, rest.data, rest.len);
		out->key = (struct slice){ room, rest.len };
		return TIDE_OK;
	}
	part = slice_cut(&rest, '/');
	if (p->place == STOMP_TOPIC)
		out->exchange = SLICE(STOMP_TOPIC_EXCHANGE);
	if (p->place != STOMP_EXCHANGE && rest.len > 0)
		return refuse(text, "has too many parts; a '/' in a name is written %2F",
			      err);
	if (p->place != STOMP_EXCHANGE)
		return read_name(text, part, &room, &out->key, err);
	if (read_name(text, part, &room, &out->exchange, err) < 0)
		return err->code;
	if (memchr(rest.data, '/', rest.len))
		return refuse(text, "has too many parts; a '/' in a name is written %2F",
			      err);
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
	return refuse(text,
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
