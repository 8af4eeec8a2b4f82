#include "command.h"

#include <strings.h>

#include "base/duration.h"
#include "base/mem.h"
#include "line.h"
#include "verb.h"

#define PREFETCH_DEFAULT 100
#define PREFETCH_MAX 65535
#define GET_MAX 1000
#define PEEK_MAX 100
#define HEARTBEAT_MIN_MS 1000
#define HEARTBEAT_MAX_MS (3600 * 1000)
#define WAIT_MAX_MS (3600 * 1000)
#define TAG_RANGES_INLINE 64

static int read_name(const char *what, struct slice s, struct error *err)
{
	if (slice_is_name(s))
		return TIDE_OK;
	return error_set(
		err, s.len > NAME_LEN_MAX ? TIDE_ETOOLONG : TIDE_ESYNTAX,
		"%s is 1-%d bytes of UTF-8 without white space and control characters",
		what, NAME_LEN_MAX);
}

/* A key, pattern or exchange of PUB: '-' stands for the empty word. */
static int read_word(const char *what, struct slice *s, struct error *err)
{
	if (slice_is(*s, "-")) {
		s->len = 0;
		return TIDE_OK;
	}
	return read_name(what, *s, err);
}

static int read_ack(const struct request *q, bool *is_auto, struct error *err)
{
	struct slice value = request_option(q, "ack");

	*is_auto = slice_is(value, "auto");
	if (!value.data || *is_auto || slice_is(value, "manual"))
		return TIDE_OK;
	return request_refuse("ack", value, err, "manual or auto");
}

/* Options as the model takes them, without the one named `except`. */
static int read_args(const struct request *q, const char *except, struct args *out,
		     struct error *err)
{
	args_init(out);
	for (unsigned i = 0; i < q->option_count; i++) {
		const struct request_option *o = &q->options[i];
		int rc;

		if (except && slice_is(o->name, except))
			continue;
		rc = args_add(out, o->name, o->value);
		if (rc < 0) {
			args_deinit(out);
			if (rc == TIDE_EEXISTS)
				return error_set(err, TIDE_ESYNTAX,
						 "option '%" SLICE_FMT "' is there twice",
						 SLICE_ARG(o->name));
			return error_set(err, TIDE_ESYNTAX,
					 "option '%" SLICE_FMT
					 "' has a value that cannot be kept",
					 SLICE_ARG(o->name));
		}
	}
	return TIDE_OK;
}

static void hello_document(struct line *l, struct json *j)
{
	struct session_facts facts = session_facts(l->session);

	json_object_begin(j);
	json_member_text(j, "server", "tidemq");
	json_member_text(j, "version", TIDE_VERSION);
	json_member_int(j, "protocol", 1);
	json_member_int(j, "node", facts.node);
	json_member_string(j, "vhost", facts.vhost);
	json_member_int(j, "heartbeat_ms", l->heartbeat_ms);
	json_key(j, "limits");
	json_object_begin(j);
	json_member_int(j, "line", LINE_MAX_BYTES);
	json_member_int(j, "payload", (int64_t)l->payload_max);
	json_member_int(j, "headers", MSG_HEADERS_MAX);
	json_member_int(j, "name", NAME_LEN_MAX);
	json_member_int(j, "channels", facts.channels_max);
	json_member_int(j, "prefetch", PREFETCH_MAX);
	json_member_int(j, "get", GET_MAX);
	json_object_end(j);
	json_object_end(j);
}

static int hello(struct line *l, const struct request *q, struct error *err)
{
	struct slice vhost = request_option(q, "vhost"), name = request_option(q, "name"),
		     user = request_option(q, "user");
	int64_t heartbeat_ms = 0;
	int rc;

	if (l->has_asked)
		return error_set(err, TIDE_EDENIED, "HELLO is the first request or none");
	rc = request_duration(q,
			      (struct request_limits){ "heartbeat", HEARTBEAT_MIN_MS,
						       HEARTBEAT_MAX_MS },
			      &heartbeat_ms, err);
	if (rc == TIDE_OK && name.data)
		rc = read_name("name", name, err);
	if (rc == TIDE_OK && user.data)
		rc = read_name("user", user, err);
	if (rc == TIDE_OK && vhost.data)
		rc = session_set_vhost(l->session, vhost, err);
	if (rc < 0)
		return rc;
	if (name.data)
		session_set_name(l->session, name);
	if (user.data)
		session_set_user(l->session, user);
	l->heartbeat_ms = heartbeat_ms;
	return TIDE_OK;
}

COMMAND(hello)
{
	int rc = hello(l, q, err);
	struct json j;

	if (rc < 0)
		return rc;
	reply_json(r, &j);
	hello_document(l, &j);
	reply_data(r);
	return TIDE_OK;
}

COMMAND(ping)
{
	reply_ok(r);
	return TIDE_OK;
}

COMMAND(quit)
{
	reply_ok(r);
	l->state = LINE_CLOSED;
	l->ops->finish(l->ctx);
	return TIDE_OK;
}

COMMAND(open)
{
	struct channel *ch;
	int rc = session_open(l->session, q->channel, &ch, err);

	if (rc == TIDE_OK)
		reply_ok(reply_create(ch, q->is_quiet));
	return rc;
}

COMMAND(close)
{
	struct channel *ch = session_channel(l->session, q->channel);

	if (q->channel == 0)
		return error_set(err, TIDE_EDENIED,
				 "channel 0 lives as long as the connection: QUIT");
	if (!ch)
		return error_set(err, TIDE_ENOTFOUND, "channel %u is not open",
				 q->channel);
	session_close_channel(ch, reply_create(ch, q->is_quiet));
	return TIDE_OK;
}

static int read_kind(struct slice word, bool *is_queue, struct error *err)
{
	*is_queue = slice_is(word, "queue");
	if (*is_queue || slice_is(word, "exchange"))
		return TIDE_OK;
	return request_refuse(NULL, word, err, "queue or exchange");
}

COMMAND(declare)
{
	struct declare_spec spec = { .name = q->words[1] };
	struct args args;
	int rc = read_kind(q->words[0], &spec.is_queue, err);

	if (rc == TIDE_OK)
		rc = read_name("a name", spec.name, err);
	if (rc == TIDE_OK && spec.is_queue && q->word_count > 2) {
		/* The third word of a queue is a flag, which is an option that is on. */
		if (q->option_count == REQUEST_OPTIONS_MAX)
			rc = error_set(err, TIDE_ETOOLONG, "too many options");
		else if (slice_is(q->words[2], "quiet"))
			q->is_quiet = r->is_quiet = true;
		else
			q->options[q->option_count++] =
				(struct request_option){ q->words[2], SLICE("1") };
	} else if (rc == TIDE_OK && !spec.is_queue && q->word_count < 3) {
		rc = error_set(err, TIDE_ESYNTAX,
			       "DECLARE exchange needs a name and a type");
	} else if (rc == TIDE_OK && !spec.is_queue) {
		spec.type = q->words[2];
		rc = read_name("a type", spec.type, err);
	}
	if (rc == TIDE_OK)
		rc = read_args(q, NULL, &args, err);
	if (rc < 0)
		return rc;
	spec.args = &args;
	session_define_declare(l->session, &spec, r);
	args_deinit(&args);
	return TIDE_OK;
}

COMMAND(delete)
{
	struct delete_spec spec = { .name = q->words[1] };
	int rc = read_kind(q->words[0], &spec.is_queue, err);

	if (rc == TIDE_OK)
		rc = read_name("a name", spec.name, err);
	if (rc < 0)
		return rc;
	spec.if_empty = request_has_flag(q, "if-empty");
	spec.if_unused = request_has_flag(q, "if-unused");
	session_define_delete(l->session, &spec, r);
	return TIDE_OK;
}

static int read_bind(const struct request *q, struct bind_spec *out, struct args *args,
		     struct error *err)
{
	struct slice dest = request_option(q, "dest");
	int rc;

	*out = (struct bind_spec){ q->words[0], q->words[1], q->words[2], args, false };
	rc = read_name("a destination", out->dest, err);
	if (rc == TIDE_OK)
		rc = read_name("an exchange", out->exchange, err);
	if (rc == TIDE_OK)
		rc = read_word("a pattern", &out->pattern, err);
	out->to_exchange = slice_is(dest, "exchange");
	if (rc == TIDE_OK && dest.data && !out->to_exchange && !slice_is(dest, "queue"))
		rc = request_refuse("dest", dest, err, "queue or exchange");
	return rc < 0 ? rc : read_args(q, "dest", args, err);
}

COMMAND(bind)
{
	struct bind_spec spec;
	struct args args;
	int rc = read_bind(q, &spec, &args, err);

	if (rc < 0)
		return rc;
	session_define_bind(l->session, &spec, r);
	args_deinit(&args);
	return TIDE_OK;
}

COMMAND(unbind)
{
	struct bind_spec spec;
	struct args args;
	int rc = read_bind(q, &spec, &args, err);

	if (rc < 0)
		return rc;
	session_define_unbind(l->session, &spec, r);
	args_deinit(&args);
	return TIDE_OK;
}

static int read_dedupe_id(const struct request *q, struct slice *out, struct error *err)
{
	struct slice id = request_option(q, "id");

	if (!id.data)
		return TIDE_OK;
	*out = id;
	if (id.len >= 1 && id.len <= MSG_DEDUPE_ID_MAX)
		return TIDE_OK;
	return error_set(err, id.len ? TIDE_ETOOLONG : TIDE_ESYNTAX,
			 "id= has %zu bytes; wanted are 1-%d", id.len, MSG_DEDUPE_ID_MAX);
}

static int read_publish(const struct request *q, struct publish_spec *spec,
			struct error *err)
{
	uint64_t priority = 0;
	int rc;

	*spec = (struct publish_spec){
		.exchange = q->words[0],
		.key = q->words[1],
		.headers = q->headers,
		.header_count = q->header_count,
		.payload_len = (size_t)q->payload_len,
	};
	rc = read_word("an exchange", &spec->exchange, err);
	if (rc == TIDE_OK)
		rc = read_word("a key", &spec->key, err);
	if (rc < 0 || q->option_count == 0)
		return rc;
	rc = request_uint(q, (struct request_limits){ "pri", 0, MSG_PRIORITY_MAX },
			  &priority, err);
	if (rc == TIDE_OK)
		rc = request_duration(
			q, (struct request_limits){ "delay", 0, DURATION_MAX_MS },
			&spec->delay_ms, err);
	if (rc == TIDE_OK)
		rc = request_duration(
			q, (struct request_limits){ "ttl", 1, DURATION_MAX_MS },
			&spec->ttl_ms, err);
	if (rc == TIDE_OK)
		rc = read_dedupe_id(q, &spec->dedupe_id, err);
	spec->priority = (uint8_t)priority;
	return rc;
}

COMMAND(publish)
{
	struct publish_spec spec;
	int rc = read_publish(q, &spec, err);

	(void)r; /* made when the payload is there */
	if (rc == TIDE_OK)
		rc = session_publish_prepare(l->session, &spec, &l->msg, err);
	if (rc < 0)
		return rc;
	l->channel = q->channel;
	l->is_mandatory = request_has_flag(q, "must");
	l->is_quiet = q->is_quiet;
	l->filled = 0;
	l->state = spec.payload_len ? LINE_PAYLOAD : LINE_ENDING;
	return TIDE_OK;
}

COMMAND(explain)
{
	struct publish_spec spec;
	int rc = read_publish(q, &spec, err);

	if (rc < 0)
		return rc;
	spec.payload = request_option(q, "payload").data;
	spec.payload_len = request_option(q, "payload").len;
	session_explain(l->session, &spec, r);
	return TIDE_OK;
}

COMMAND(subscribe)
{
	struct subscribe_spec spec = { .queue = q->words[0], .sid = q->words[1] };
	uint64_t prefetch = PREFETCH_DEFAULT;
	int rc = read_name("a queue", spec.queue, err);

	if (rc == TIDE_OK)
		rc = read_name("a subscription's id", spec.sid, err);
	if (rc == TIDE_OK && slice_is(spec.sid, "-"))
		rc = error_set(err, TIDE_ESYNTAX,
			       "'-' stands for no subscription and cannot be the name "
			       "of one");
	if (rc == TIDE_OK)
		rc = request_uint(q,
				  (struct request_limits){ "prefetch", 1, PREFETCH_MAX },
				  &prefetch, err);
	if (rc == TIDE_OK)
		rc = read_ack(q, &spec.is_auto_ack, err);
	if (rc < 0)
		return rc;
	spec.prefetch = (uint32_t)prefetch;
	session_consume_subscribe(session_channel(l->session, q->channel), &spec, r);
	return TIDE_OK;
}

COMMAND(unsubscribe)
{
	int rc = read_name("a subscription's id", q->words[0], err);

	if (rc == TIDE_OK)
		session_consume_unsubscribe(session_channel(l->session, q->channel),
					    q->words[0], r);
	return rc;
}

COMMAND(get)
{
	struct get_spec spec = { .queue = q->words[0] };
	uint64_t max = 1;
	int rc = read_name("a queue", spec.queue, err);

	if (rc == TIDE_OK)
		rc = request_uint(q, (struct request_limits){ "max", 1, GET_MAX }, &max,
				  err);
	if (rc == TIDE_OK)
		rc = request_duration(q,
				      (struct request_limits){ "wait", 0, WAIT_MAX_MS },
				      &spec.wait_ms, err);
	if (rc == TIDE_OK)
		rc = read_ack(q, &spec.is_auto_ack, err);
	if (rc < 0)
		return rc;
	spec.max = (uint32_t)max;
	session_consume_get(session_channel(l->session, q->channel), &spec, r);
	return TIDE_OK;
}

static int read_range(struct slice word, struct tag_range *out, struct error *err)
{
	const char *dash = memchr(word.data, '-', word.len);
	struct slice first = { word.data, dash ? (size_t)(dash - word.data) : word.len };

	if (slice_to_uint(first, UINT64_MAX - 1, &out->first)) {
		out->last = out->first;
		if (!dash || (slice_to_uint(slice_skip(word, first.len + 1),
					    UINT64_MAX - 1, &out->last) &&
			      out->last >= out->first))
			return TIDE_OK;
	}
	return error_set(err, TIDE_ESYNTAX,
			 "'%.*s' is no tag: wanted are numbers, or ranges like 3-7",
			 SLICE_HEAD(word, 40));
}

static int settle(struct line *l, struct request *q, struct settle_spec *spec,
		  struct reply *r, struct error *err)
{
	struct tag_range inline_ranges[TAG_RANGES_INLINE], *ranges = inline_ranges;
	struct slice rest = q->tags;
	size_t words = 1;
	int rc = TIDE_OK;

	for (size_t i = 0; i < rest.len; i++)
		words += rest.data[i] == ' ';
	if (words > TAG_RANGES_INLINE)
		ranges = mem_alloc(words * sizeof(*ranges));
	for (size_t i = 0; i < words && rc == TIDE_OK; i++)
		rc = read_range(slice_cut(&rest, ' '), &ranges[i], err);
	spec->ranges = ranges;
	spec->count = words;
	if (rc == TIDE_OK)
		session_settle(session_channel(l->session, q->channel), spec, r);
	if (ranges != inline_ranges)
		mem_free(ranges);
	return rc;
}

COMMAND(ack)
{
	struct settle_spec spec = { .how = SETTLE_ACK };

	return settle(l, q, &spec, r, err);
}

COMMAND(nack)
{
	struct settle_spec spec = { .how = SETTLE_RETRY };
	bool is_dead = request_has_flag(q, "dead"),
	     is_requeue = request_has_flag(q, "requeue");
	struct slice delay = request_option(q, "delay");
	int rc = request_duration(
		q, (struct request_limits){ "delay", 0, DURATION_MAX_MS }, &spec.ms, err);

	if (rc == TIDE_OK && is_dead + is_requeue + (delay.data != NULL) > 1)
		rc = error_set(err, TIDE_ESYNTAX,
			       "NACK takes one of delay=, dead and requeue");
	if (rc < 0)
		return rc;
	if (is_dead)
		spec.how = SETTLE_DEAD;
	else if (is_requeue || delay.data)
		spec.how = SETTLE_AFTER;
	return settle(l, q, &spec, r, err);
}

COMMAND(touch)
{
	struct settle_spec spec = { .how = SETTLE_TOUCH };
	int rc = request_duration(
		q, (struct request_limits){ "for", 10, INT64_C(24) * 3600 * 1000 },
		&spec.ms, err);

	return rc < 0 ? rc : settle(l, q, &spec, r, err);
}

static int read_state(const struct request *q, enum peek_state *out, struct error *err)
{
	static const struct {
		const char *name;
		enum peek_state state;
	} states[] = {
		{ "ready", PEEK_READY },
		{ "delayed", PEEK_DELAYED },
		{ "unacked", PEEK_UNACKED },
		{ "buried", PEEK_BURIED },
	};
	struct slice value = request_option(q, "state");

	*out = PEEK_READY;
	if (!value.data)
		return TIDE_OK;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (slice_is(value, states[i].name)) {
			*out = states[i].state;
			return TIDE_OK;
		}
	}
	return request_refuse("state", value, err, "ready, delayed, unacked or buried");
}

/* The second word, a count, where it may be left out. */
static int read_count(const struct request *q, uint64_t max, uint64_t *out,
		      struct error *err)
{
	if (q->word_count < 2)
		return TIDE_OK;
	if (slice_to_uint(q->words[1], max, out) && *out > 0)
		return TIDE_OK;
	return request_refuse(NULL, q->words[1], err, "a number from 1 to %llu",
			      (unsigned long long)max);
}

COMMAND(peek)
{
	struct peek_spec spec = { .queue = q->words[0] };
	uint64_t max = 1;
	int rc = read_name("a queue", spec.queue, err);

	if (rc == TIDE_OK)
		rc = read_count(q, PEEK_MAX, &max, err);
	if (rc == TIDE_OK)
		rc = read_state(q, &spec.state, err);
	spec.max = (unsigned)max;
	if (rc == TIDE_OK)
		session_peek(l->session, &spec, r);
	return rc;
}

COMMAND(purge)
{
	int rc = read_name("a queue", q->words[0], err);

	if (rc == TIDE_OK)
		session_queue_purge(l->session, q->words[0], r);
	return rc;
}

COMMAND(kick)
{
	uint64_t max = UINT64_MAX;
	int rc = read_name("a queue", q->words[0], err);

	if (rc == TIDE_OK && q->word_count == 2 && slice_is(q->words[1], "quiet"))
		r->is_quiet = true;
	else if (rc == TIDE_OK)
		rc = read_count(q, UINT64_MAX - 1, &max, err);
	if (rc < 0)
		return rc;
	session_queue_kick(l->session, q->words[0], max, r);
	return TIDE_OK;
}

COMMAND(list)
{
	static const char *const names[] = {
		[LIST_EXCHANGES] = "exchanges",     [LIST_QUEUES] = "queues",
		[LIST_BINDINGS] = "bindings",       [LIST_CONSUMERS] = "consumers",
		[LIST_CONNECTIONS] = "connections", [LIST_RULES] = "rules",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (slice_is(q->words[0], names[i])) {
			session_report_list(l->session, (enum list_what)i, r);
			return TIDE_OK;
		}
	}
	return error_set(err, TIDE_ESYNTAX,
			 "LIST knows exchanges, queues, bindings, consumers, connections "
			 "and rules");
}

COMMAND(stats)
{
	struct slice queue = q->word_count ? q->words[0] : SLICE("");
	int rc = q->word_count ? read_name("a queue", queue, err) : TIDE_OK;

	if (rc == TIDE_OK)
		session_report_stats(l->session, queue, r);
	return rc;
}
