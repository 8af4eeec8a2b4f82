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

/* ---- reading words and options
 * --------------------------------------------------------- */

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

static int read_uint(const struct request *q, const char *name, uint64_t min,
		     uint64_t max, uint64_t *out, struct error *err)
{
	struct slice value = request_option(q, name);

	if (!value.data)
		return TIDE_OK;
	if (slice_to_uint(value, max, out) && *out >= min)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "%s=%.*s: wanted is a number from %llu to %llu", name,
			 (int)(value.len < 64 ? value.len : 64), value.data,
			 (unsigned long long)min, (unsigned long long)max);
}

static int read_duration(const struct request *q, const char *name, int64_t min_ms,
			 int64_t max_ms, int64_t *out, struct error *err)
{
	struct slice value = request_option(q, name);
	char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];

	if (!value.data)
		return TIDE_OK;
	if (duration_parse(value, out) == TIDE_OK && *out >= min_ms && *out <= max_ms)
		return TIDE_OK;
	duration_format(min_ms, least);
	duration_format(max_ms, most);
	return error_set(err, TIDE_ESYNTAX,
			 "%s=%.*s: wanted is a duration like 250ms, 30s, 5m, 2h or 1d, "
			 "from %s to %s",
			 name, (int)(value.len < 64 ? value.len : 64), value.data, least,
			 most);
}

static int read_ack(const struct request *q, bool *is_auto, struct error *err)
{
	struct slice value = request_option(q, "ack");

	*is_auto = slice_is(value, "auto");
	if (!value.data || *is_auto || slice_is(value, "manual"))
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX, "ack=%.*s: wanted is manual or auto",
			 (int)(value.len < 64 ? value.len : 64), value.data);
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

/* ---- the connection
 * ------------------------------------------------------------------------ */

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
	rc = read_duration(q, "heartbeat", HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS,
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
	l->ops->set_heartbeat(l->ctx, heartbeat_ms);
	return TIDE_OK;
}

COMMAND(hello)
{
	struct error err;
	struct buf text;
	struct json j;

	if (hello(l, q, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	buf_init(&text);
	json_init(&j, &text);
	hello_document(l, &j);
	reply_data_take(r, &text);
}

COMMAND(ping)
{
	reply_ok(r);
}

COMMAND(quit)
{
	reply_ok(r);
	l->state = LINE_CLOSED;
	l->ops->finish(l->ctx);
}

COMMAND(open)
{
	struct channel *ch;
	struct error err;

	if (session_open(l->session, q->channel, &ch, &err) < 0)
		line_reply_error(l, q->channel, &err);
	else
		reply_ok(reply_create(ch, q->is_quiet));
}

COMMAND(close)
{
	struct channel *ch = session_channel(l->session, q->channel);
	struct error err;

	if (q->channel == 0) {
		error_set(&err, TIDE_EDENIED,
			  "channel 0 lives as long as the connection: QUIT");
		line_reply_error(l, 0, &err);
	} else if (!ch) {
		error_set(&err, TIDE_ENOTFOUND, "channel %u is not open", q->channel);
		line_reply_error(l, q->channel, &err);
	} else {
		session_close_channel(ch, reply_create(ch, q->is_quiet));
	}
}

/* ---- definitions
 * ----------------------------------------------------------------------------- */

static int read_kind(struct slice word, bool *is_queue, struct error *err)
{
	*is_queue = slice_is(word, "queue");
	if (*is_queue || slice_is(word, "exchange"))
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX, "'%.*s': wanted is queue or exchange",
			 (int)(word.len < 40 ? word.len : 40), word.data);
}

static int declare(struct line *l, struct request *q, struct reply *r, struct error *err)
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

COMMAND(declare)
{
	struct error err;

	if (declare(l, q, r, &err) < 0)
		reply_error(r, &err);
}

COMMAND(delete)
{
	struct delete_spec spec = { .name = q->words[1] };
	struct error err;

	if (read_kind(q->words[0], &spec.is_queue, &err) < 0 ||
	    read_name("a name", spec.name, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	spec.if_empty = request_has_flag(q, "if-empty");
	spec.if_unused = request_has_flag(q, "if-unused");
	session_define_delete(l->session, &spec, r);
}

static void bind_or_unbind(struct line *l, struct request *q, struct reply *r,
			   void (*run)(struct session *s, const struct bind_spec *spec,
				       struct reply *r))
{
	struct bind_spec spec = { q->words[0], q->words[1], q->words[2], NULL, false };
	struct slice dest = request_option(q, "dest");
	struct args args;
	struct error err;
	int rc = read_name("a destination", spec.dest, &err);

	if (rc == TIDE_OK)
		rc = read_name("an exchange", spec.exchange, &err);
	if (rc == TIDE_OK)
		rc = read_word("a pattern", &spec.pattern, &err);
	spec.to_exchange = slice_is(dest, "exchange");
	if (rc == TIDE_OK && dest.data && !spec.to_exchange && !slice_is(dest, "queue"))
		rc = error_set(&err, TIDE_ESYNTAX,
			       "dest=%.*s: wanted is queue or exchange",
			       (int)(dest.len < 40 ? dest.len : 40), dest.data);
	if (rc == TIDE_OK)
		rc = read_args(q, "dest", &args, &err);
	if (rc < 0) {
		reply_error(r, &err);
		return;
	}
	spec.args = &args;
	run(l->session, &spec, r);
	args_deinit(&args);
}

COMMAND(bind)
{
	bind_or_unbind(l, q, r, session_define_bind);
}

COMMAND(unbind)
{
	bind_or_unbind(l, q, r, session_define_unbind);
}

/* ---- publishing
 * -------------------------------------------------------------------------------- */

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
	rc = read_uint(q, "pri", 0, MSG_PRIORITY_MAX, &priority, err);
	if (rc == TIDE_OK)
		rc = read_duration(q, "delay", 0, DURATION_MAX_MS, &spec->delay_ms, err);
	if (rc == TIDE_OK)
		rc = read_duration(q, "ttl", 1, DURATION_MAX_MS, &spec->ttl_ms, err);
	if (rc == TIDE_OK)
		rc = read_dedupe_id(q, &spec->dedupe_id, err);
	spec->priority = (uint8_t)priority;
	return rc;
}

COMMAND(publish)
{
	struct publish_spec spec;
	struct error err;
	int rc = read_publish(q, &spec, &err);

	(void)r; /* made when the payload is there */
	if (rc == TIDE_OK)
		rc = session_publish_prepare(l->session, &spec, &l->msg, &err);
	l->channel = q->channel;
	if (rc < 0) {
		reply_error(reply_create(session_channel(l->session, q->channel), false),
			    &err);
		l->skip = q->payload_len;
		l->state = l->skip ? LINE_SKIPPING : LINE_SKIPPED;
		return;
	}
	l->is_mandatory = request_has_flag(q, "must");
	l->is_quiet = q->is_quiet;
	l->filled = 0;
	l->state = spec.payload_len ? LINE_PAYLOAD : LINE_ENDING;
}

COMMAND(explain)
{
	struct publish_spec spec;
	struct error err;

	if (read_publish(q, &spec, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	spec.payload = request_option(q, "payload").data;
	spec.payload_len = request_option(q, "payload").len;
	session_explain(l->session, &spec, r);
}

/* ---- consuming
 * ---------------------------------------------------------------------------------- */

COMMAND(subscribe)
{
	struct subscribe_spec spec = { .queue = q->words[0], .sid = q->words[1] };
	uint64_t prefetch = PREFETCH_DEFAULT;
	struct error err;
	int rc = read_name("a queue", spec.queue, &err);

	if (rc == TIDE_OK)
		rc = read_name("a subscription's id", spec.sid, &err);
	if (rc == TIDE_OK && slice_is(spec.sid, "-"))
		rc = error_set(&err, TIDE_ESYNTAX,
			       "'-' stands for no subscription and cannot be the name "
			       "of one");
	if (rc == TIDE_OK)
		rc = read_uint(q, "prefetch", 1, PREFETCH_MAX, &prefetch, &err);
	if (rc == TIDE_OK)
		rc = read_ack(q, &spec.is_auto_ack, &err);
	if (rc < 0) {
		reply_error(r, &err);
		return;
	}
	spec.prefetch = (uint32_t)prefetch;
	session_consume_subscribe(session_channel(l->session, q->channel), &spec, r);
}

COMMAND(unsubscribe)
{
	struct error err;

	if (read_name("a subscription's id", q->words[0], &err) < 0)
		reply_error(r, &err);
	else
		session_consume_unsubscribe(session_channel(l->session, q->channel),
					    q->words[0], r);
}

COMMAND(get)
{
	struct get_spec spec = { .queue = q->words[0] };
	uint64_t max = 1;
	struct error err;
	int rc = read_name("a queue", spec.queue, &err);

	if (rc == TIDE_OK)
		rc = read_uint(q, "max", 1, GET_MAX, &max, &err);
	if (rc == TIDE_OK)
		rc = read_duration(q, "wait", 0, WAIT_MAX_MS, &spec.wait_ms, &err);
	if (rc == TIDE_OK)
		rc = read_ack(q, &spec.is_auto_ack, &err);
	if (rc < 0) {
		reply_error(r, &err);
		return;
	}
	spec.max = (uint32_t)max;
	session_consume_get(session_channel(l->session, q->channel), &spec, r);
}

/* ---- settling
 * --------------------------------------------------------------------------------------
 */

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
			 (int)(word.len < 40 ? word.len : 40), word.data);
}

static void settle(struct line *l, struct request *q, struct settle_spec *spec,
		   struct reply *r)
{
	struct tag_range inline_ranges[TAG_RANGES_INLINE], *ranges = inline_ranges;
	struct slice rest = q->tags;
	struct error err;
	size_t words = 1;

	for (size_t i = 0; i < rest.len; i++)
		words += rest.data[i] == ' ';
	if (words > TAG_RANGES_INLINE)
		ranges = mem_alloc(words * sizeof(*ranges));
	spec->ranges = ranges;
	spec->count = words;
	for (size_t i = 0; i < words; i++) {
		const char *space = memchr(rest.data, ' ', rest.len);
		struct slice word = { rest.data,
				      space ? (size_t)(space - rest.data) : rest.len };

		if (read_range(word, &ranges[i], &err) < 0) {
			reply_error(r, &err);
			goto done;
		}
		rest = slice_skip(rest, space ? word.len + 1 : word.len);
	}
	session_settle(session_channel(l->session, q->channel), spec, r);
done:
	if (ranges != inline_ranges)
		mem_free(ranges);
}

COMMAND(ack)
{
	struct settle_spec spec = { .how = SETTLE_ACK };

	settle(l, q, &spec, r);
}

COMMAND(nack)
{
	struct settle_spec spec = { .how = SETTLE_RETRY };
	bool is_dead = request_has_flag(q, "dead"),
	     is_requeue = request_has_flag(q, "requeue");
	struct slice delay = request_option(q, "delay");
	struct error err;
	int rc = read_duration(q, "delay", 0, DURATION_MAX_MS, &spec.ms, &err);

	if (rc == TIDE_OK && is_dead + is_requeue + (delay.data != NULL) > 1)
		rc = error_set(&err, TIDE_ESYNTAX,
			       "NACK takes one of delay=, dead and requeue");
	if (rc < 0) {
		reply_error(r, &err);
		return;
	}
	if (is_dead)
		spec.how = SETTLE_DEAD;
	else if (is_requeue || delay.data)
		spec.how = SETTLE_AFTER;
	settle(l, q, &spec, r);
}

COMMAND(touch)
{
	struct settle_spec spec = { .how = SETTLE_TOUCH };
	struct error err;

	if (read_duration(q, "for", 10, INT64_C(24) * 3600 * 1000, &spec.ms, &err) < 0)
		reply_error(r, &err);
	else
		settle(l, q, &spec, r);
}

/* ---- looking
 * ------------------------------------------------------------------------------------------
 */

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
	return error_set(err, TIDE_ESYNTAX,
			 "state=%.*s: wanted is ready, delayed, unacked or buried",
			 (int)(value.len < 40 ? value.len : 40), value.data);
}

/* The second word, a count, where it may be left out. */
static int read_count(const struct request *q, uint64_t max, uint64_t *out,
		      struct error *err)
{
	if (q->word_count < 2)
		return TIDE_OK;
	if (slice_to_uint(q->words[1], max, out) && *out > 0)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX, "'%.*s': wanted is a number from 1 to %llu",
			 (int)(q->words[1].len < 40 ? q->words[1].len : 40),
			 q->words[1].data, (unsigned long long)max);
}

COMMAND(peek)
{
	struct peek_spec spec = { .queue = q->words[0] };
	uint64_t max = 1;
	struct error err;

	if (read_name("a queue", spec.queue, &err) < 0 ||
	    read_count(q, PEEK_MAX, &max, &err) < 0 ||
	    read_state(q, &spec.state, &err) < 0) {
		reply_error(r, &err);
		return;
	}
	spec.max = (unsigned)max;
	session_peek(l->session, &spec, r);
}

COMMAND(purge)
{
	struct error err;

	if (read_name("a queue", q->words[0], &err) < 0)
		reply_error(r, &err);
	else
		session_queue_purge(l->session, q->words[0], r);
}

COMMAND(kick)
{
	uint64_t max = UINT64_MAX;
	struct error err;
	int rc = read_name("a queue", q->words[0], &err);

	if (rc == TIDE_OK && q->word_count == 2 && slice_is(q->words[1], "quiet"))
		r->is_quiet = true;
	else if (rc == TIDE_OK)
		rc = read_count(q, UINT64_MAX - 1, &max, &err);
	if (rc < 0) {
		reply_error(r, &err);
		return;
	}
	session_queue_kick(l->session, q->words[0], max, r);
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
			return;
		}
	}
	reply_refuse(r, TIDE_ESYNTAX,
		     "LIST knows exchanges, queues, bindings, consumers, connections and "
		     "rules");
}

COMMAND(stats)
{
	struct error err;

	if (q->word_count && read_name("a queue", q->words[0], &err) < 0)
		reply_error(r, &err);
	else
		session_report_stats(l->session, q->word_count ? q->words[0] : SLICE(""),
				     r);
}
