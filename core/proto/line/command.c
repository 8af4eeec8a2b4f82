#include "verb.h"

#include "base/duration.h"
#include "base/mem.h"
#include "line.h"

#define PREFETCH_DEFAULT 100
#define PREFETCH_MAX 65535
#define GET_MAX 1000
#define PEEK_MAX 100
#define HEARTBEAT_MIN_MS 1000
#define HEARTBEAT_MAX_MS (3600 * 1000)
#define WAIT_MAX_MS (3600 * 1000)
#define TAG_RANGES_INLINE 64

void command_add_arg(struct request *q, struct args *args, struct slice name,
		     struct slice value)
{
	int rc = args_add(args, name, value);

	if (rc == TIDE_EEXISTS)
		q->rc = error_set(q->err, TIDE_ESYNTAX,
				  "option '%" SLICE_FMT "' appears twice",
				  SLICE_ARG(name));
	else if (rc < 0)
		q->rc = error_set(q->err, TIDE_ESYNTAX,
				  "option '%" SLICE_FMT
				  "' has a name or value that cannot be stored",
				  SLICE_ARG(name));
}

/* Options as the model takes them, without the one named `except`. */
static void read_args(struct request *q, const char *except, struct args *out)
{
	*out = (struct args){ 0 };
	for (unsigned i = 0; i < q->option_count && q->rc == TIDE_OK; i++)
		if (!except || !slice_is(q->options[i].name, except))
			command_add_arg(q, out, q->options[i].name, q->options[i].value);
	if (q->rc < 0)
		args_deinit(out);
}

static void hello_document(struct line *l, struct json *j)
{
	struct session_facts facts = session_facts(l->base.session);

	json_object_begin(j);
	json_member_text(j, "server", "tidemq");
	json_member_text(j, "version", TIDE_VERSION);
	json_member_int(j, "protocol", 1);
	json_member_int(j, "node", facts.node);
	json_member_string(j, "vhost", facts.vhost);
	json_member_int(j, "heartbeat_ms", l->base.heartbeat_in_ms);
	json_key(j, "limits");
	json_object_begin(j);
	json_member_int(j, "line", LINE_MAX_BYTES);
	json_member_int(j, "payload", (int64_t)l->base.payload_max);
	json_member_int(j, "headers", MSG_HEADERS_MAX);
	json_member_int(j, "name", NAME_LEN_MAX);
	json_member_int(j, "channels", facts.channels_max);
	json_member_int(j, "prefetch", PREFETCH_MAX);
	json_member_int(j, "get", GET_MAX);
	json_object_end(j);
	json_object_end(j);
}

static void on_logged_in(void *ctx, struct reply *r, const struct error *refusal)
{
	struct json j;

	if (refusal) {
		reply_error(r, refusal);
		return;
	}
	reply_json(r, &j);
	hello_document(ctx, &j);
	reply_data(r);
}

/* Who has to log in may try again. */
static bool is_late(const struct line *l)
{
	return l->has_asked && session_login_check(l->base.session, NULL) == TIDE_OK;
}

COMMAND(hello)
{
	const struct number_limits heartbeat = { HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS },
				   prefetch = { 1, PREFETCH_MAX };
	const struct session_login login = {
		.user = request_option(q, "user"),
		.password = request_option(q, "pass"),
		.vhost = request_option(q, "vhost"),
		.on_done = on_logged_in,
		.ctx = l,
	};
	struct slice name = request_option(q, "name");
	uint32_t channel_prefetch;
	int64_t heartbeat_ms;

	if (is_late(l))
		return error_set(q->err, TIDE_EDENIED, "HELLO must be the first request");
	heartbeat_ms = request_duration(q, "heartbeat", heartbeat);
	channel_prefetch = (uint32_t)request_uint(q, "prefetch", prefetch, 0);
	if (name.data)
		request_check_name(q, name, "name");
	if (login.user.data)
		request_check_name(q, login.user, "user");
	if (q->rc < 0)
		return q->rc;
	if (name.data)
		session_set_name(l->base.session, name);
	session_limit_channel(session_channel(l->base.session, 0), channel_prefetch);
	l->base.heartbeat_in_ms = l->base.heartbeat_out_ms = heartbeat_ms;
	return session_login_start(l->base.session, &login, r, q->err);
}

COMMAND(ping)
{
	reply_ok(r);
	return TIDE_OK;
}

COMMAND(help)
{
	struct buf text = { 0 };

	verb_help(&text);
	reply_data_take(r, &text);
	return TIDE_OK;
}

COMMAND(quit)
{
	reply_ok(r);
	session_leave(l->base.session);
	l->state = LINE_CLOSED;
	l->base.ops->finish(l->base.ctx);
	return TIDE_OK;
}

COMMAND(open)
{
	const struct number_limits limits = { 1, PREFETCH_MAX };
	uint32_t prefetch = (uint32_t)request_uint(q, "prefetch", limits, 0);
	struct channel *ch;

	if (q->rc < 0 || session_open(l->base.session, q->channel, &ch, q->err) < 0)
		return q->err->code;
	session_limit_channel(ch, prefetch);
	reply_ok(reply_create(ch, q->is_quiet));
	return TIDE_OK;
}

COMMAND(close)
{
	struct channel *ch = session_channel(l->base.session, q->channel);

	if (q->channel == 0)
		return error_set(q->err, TIDE_EDENIED,
				 "channel 0 ends with the connection; send QUIT");
	if (!ch)
		return error_set(q->err, TIDE_ENOTFOUND, "channel %u is not open",
				 q->channel);
	session_close_channel(ch, reply_create(ch, q->is_quiet));
	return TIDE_OK;
}

static enum define_kind read_kind(struct request *q)
{
	static const char *const names[] = { [DEFINE_EXCHANGE] = "exchange",
					     [DEFINE_QUEUE] = "queue",
					     [DEFINE_TOPIC] = "topic",
					     [DEFINE_VHOST] = "vhost" };

	for (int kind = DEFINE_EXCHANGE; kind <= DEFINE_VHOST; kind++)
		if (slice_is(q->words[0], names[kind]))
			return (enum define_kind)kind;
	request_refuse(q, NULL, q->words[0], "exchange, queue, topic or vhost");
	return DEFINE_EXCHANGE;
}

/* The third word of a queue or a topic is a flag, which is an option that is on. */
static int read_queue_flag(struct request *q, struct reply *r)
{
	if (q->option_count == REQUEST_OPTIONS_MAX)
		return error_set(q->err, TIDE_ETOOLONG, "too many options");
	if (slice_is(q->words[2], "quiet"))
		q->is_quiet = r->is_quiet = true;
	else
		q->options[q->option_count++] =
			(struct request_option){ q->words[2], SLICE("1") };
	return TIDE_OK;
}

COMMAND(declare)
{
	struct args args;
	struct declare_spec spec = { .args = &args };

	spec.kind = read_kind(q);
	spec.name = request_name(q, 1, "a name");
	if (spec.kind == DEFINE_EXCHANGE && q->word_count > 2)
		spec.type = request_name(q, 2, "a type");
	else if (q->rc == TIDE_OK && spec.kind == DEFINE_EXCHANGE)
		return error_set(q->err, TIDE_ESYNTAX,
				 "DECLARE exchange needs a name and a type");
	else if (q->rc == TIDE_OK && q->word_count > 2)
		q->rc = read_queue_flag(q, r);
	if (q->rc == TIDE_OK && spec.kind == DEFINE_QUEUE && q->is_quiet &&
	    slice_is(spec.name, "-"))
		return error_set(q->err, TIDE_ESYNTAX,
				 "DECLARE queue - is answered with the name: it takes no "
				 "'quiet'");
	if (q->rc == TIDE_OK)
		read_args(q, NULL, &args);
	if (q->rc < 0)
		return q->rc;
	q->rc = session_define_declare(l->base.session, &spec, r, q->err);
	args_deinit(&args);
	return q->rc;
}

COMMAND(delete)
{
	struct delete_spec spec = {
		.if_empty = request_has_flag(q, "if-empty"),
		.if_unused = request_has_flag(q, "if-unused"),
	};

	if (slice_is(q->words[0], "group"))
		return command_topic_delete_group(l, q, r);
	if (q->word_count > 2)
		return error_set(
			q->err, TIDE_ESYNTAX,
			"DELETE has no flag '%.*s'; it takes: if-empty if-unused "
			"quiet",
			SLICE_HEAD(q->words[2], 64));
	spec.kind = read_kind(q);
	spec.name = request_name(q, 1, "a name");
	if (q->rc == TIDE_OK && spec.kind == DEFINE_TOPIC && spec.if_empty)
		return error_set(q->err, TIDE_ESYNTAX,
				 "if-empty is for queues; DELETE topic takes if-unused");
	if (q->rc < 0)
		return q->rc;
	return session_define_delete(l->base.session, &spec, r, q->err);
}

typedef int bind_fn(struct session *s, const struct bind_spec *spec, struct reply *r,
		    struct error *err);

static int bind_or_unbind(struct line *l, struct request *q, struct reply *r,
			  bind_fn *run)
{
	struct args args;
	struct bind_spec spec = { .args = &args };

	spec.dest = request_name(q, 0, "a destination");
	spec.exchange = request_name(q, 1, "an exchange");
	spec.pattern = request_word(q, 2, "a pattern");
	spec.to_exchange = request_choice(q, "dest", "queue or exchange");
	if (q->rc == TIDE_OK)
		read_args(q, "dest", &args);
	if (q->rc < 0)
		return q->rc;
	q->rc = run(l->base.session, &spec, r, q->err);
	args_deinit(&args);
	return q->rc;
}

COMMAND(bind)
{
	return bind_or_unbind(l, q, r, session_define_bind);
}

COMMAND(unbind)
{
	return bind_or_unbind(l, q, r, session_define_unbind);
}

/* The lease that somebody wants; 0: he does not say. */
static uint32_t read_ack_timeout(struct request *q)
{
	const struct number_limits limits = { MSG_ACK_TIMEOUT_MIN_MS,
					      MSG_ACK_TIMEOUT_MAX_MS };

	return (uint32_t)request_duration(q, "ack-timeout", limits);
}

static uint8_t read_priority(struct request *q)
{
	const struct number_limits limits = { 0, MSG_PRIORITY_MAX };

	return (uint8_t)request_uint(q, "pri", limits, 0);
}

static int read_publish(struct request *q, struct publish_spec *spec)
{
	static const struct number_limits delay = { 0, DURATION_MAX_MS },
					  ttl = { 1, DURATION_MAX_MS };

	*spec = (struct publish_spec){
		.headers = q->headers,
		.header_count = q->header_count,
		.payload_len = (size_t)q->payload_len,
	};
	spec->exchange = request_word(q, 0, "an exchange");
	spec->key = request_word(q, 1, "a key");
	if (q->rc < 0 || q->option_count == 0)
		return q->rc;
	spec->priority = read_priority(q);
	spec->delay_ms = request_duration(q, "delay", delay);
	spec->ttl_ms = request_duration(q, "ttl", ttl);
	spec->ack_timeout_ms = read_ack_timeout(q);
	spec->dedupe_id = request_option(q, "id");
	if (q->rc == TIDE_OK && spec->dedupe_id.data &&
	    (spec->dedupe_id.len == 0 || spec->dedupe_id.len > MSG_DEDUPE_ID_MAX))
		return error_set(q->err,
				 spec->dedupe_id.len ? TIDE_ETOOLONG : TIDE_ESYNTAX,
				 "id= has %zu bytes; expected 1-%d", spec->dedupe_id.len,
				 MSG_DEDUPE_ID_MAX);
	return q->rc;
}

static int read_expected(struct request *q, struct publish_demand *demand)
{
	const struct number_limits offset = { 0, INT64_MAX };

	demand->has_expected = request_option(q, "expect").data != NULL;
	demand->expected = request_uint(q, "expect", offset, 0);
	return q->rc;
}

COMMAND(publish)
{
	struct publish_spec spec;
	int rc = read_publish(q, &spec);

	(void)r; /* made when the payload is there */
	l->demand.has_expected = false;
	if (rc == TIDE_OK && q->option_count > 0)
		rc = read_expected(q, &l->demand);
	if (rc == TIDE_OK)
		rc = session_publish_prepare(l->base.session, &spec, &l->base.msg,
					     q->err);
	if (rc < 0)
		return rc;
	l->channel = q->channel;
	l->demand.must = request_has_flag(q, "must");
	l->is_quiet = q->is_quiet;
	l->base.filled = 0;
	l->state = LINE_PAYLOAD;
	return TIDE_OK;
}

COMMAND(explain)
{
	struct publish_spec spec;
	int rc = read_publish(q, &spec);

	spec.payload = request_option(q, "payload").data;
	spec.payload_len = request_option(q, "payload").len;
	return rc < 0 ? rc : session_explain(l->base.session, &spec, r, q->err);
}

#define ACK_MODES "manual or auto"

static struct position read_position(struct request *q, const char *name)
{
	struct slice text = request_option(q, name);
	struct position position = { 0 };

	if (q->rc == TIDE_OK && text.data)
		q->rc = position_parse(text, &position, q->err);
	return position;
}

COMMAND(subscribe)
{
	const struct number_limits prefetch = { 1, PREFETCH_MAX },
				   rank = { 0, SUBSCRIBE_RANK_MAX },
				   before = { 10, INT64_C(24) * 3600 * 1000 };
	struct subscribe_spec spec = { .queue = request_name(q, 0, "a queue") };

	spec.sid = request_name(q, 1, "a subscription's id");
	if (q->rc == TIDE_OK && slice_is(spec.sid, "-"))
		return error_set(q->err, TIDE_ESYNTAX,
				 "'-' cannot be the name of a subscription");
	spec.prefetch = (uint32_t)request_uint(q, "prefetch", prefetch, PREFETCH_DEFAULT);
	spec.is_auto_ack = request_choice(q, "ack", ACK_MODES);
	spec.ack_timeout_ms = read_ack_timeout(q);
	spec.notify_lease_ms = request_duration(q, "notify-lease", before);
	spec.rank = (uint32_t)request_uint(q, "rank", rank, SUBSCRIBE_RANK_MAX);
	spec.priority = (int32_t)request_int(q, "priority", SUBSCRIBE_PRIORITY_MIN,
					     SUBSCRIBE_PRIORITY_MAX, 0);
	spec.group = request_option(q, "group");
	if (spec.group.data)
		request_check_name(q, spec.group, "group=");
	spec.from = read_position(q, "from");
	spec.partition = request_int(q, "partition", 0, REQUEST_PARTITIONS_MAX - 1, -1);
	if (q->rc < 0)
		return q->rc;
	return session_consume_subscribe(session_channel(l->base.session, q->channel),
					 &spec, r, q->err);
}

COMMAND(unsubscribe)
{
	struct slice sid = request_name(q, 0, "a subscription's id");

	if (q->rc < 0)
		return q->rc;
	return session_consume_unsubscribe(session_channel(l->base.session, q->channel),
					   sid, r, q->err);
}

static void read_queues(struct request *q, struct slice *queues, unsigned *count)
{
	struct slice list = q->tags;

	queues[0] = request_name(q, 0, "a queue");
	for (*count = 1; q->rc == TIDE_OK && list.len > 0; ++*count) {
		if (*count < GET_QUEUES_MAX)
			request_check_name(q, queues[*count] = slice_cut(&list, ' '),
					   "a queue");
		else
			q->rc = error_set(q->err, TIDE_ETOOLONG,
					  "GET names at most %d queues", GET_QUEUES_MAX);
	}
}

/* What a GET of a topic says. */
static void read_pull(struct request *q, struct get_spec *spec)
{
	spec->group = request_option(q, "group");
	if (spec->group.data)
		request_check_name(q, spec->group, "group=");
	spec->from = read_position(q, "from");
	spec->partition = request_int(q, "partition", 0, REQUEST_PARTITIONS_MAX - 1, -1);
	spec->offset = read_position(q, "offset");
	if (q->rc == TIDE_OK && spec->offset.kind && !spec->group.data &&
	    ((request_option(q, "ack").data && !spec->is_auto_ack) ||
	     spec->ack_timeout_ms))
		q->rc = error_set(q->err, TIDE_ESYNTAX,
				  "a GET with offset= gives nothing to hold: ack=manual "
				  "and ack-timeout= need group=");
}

COMMAND(get)
{
	const struct number_limits max = { 1, GET_MAX }, wait = { 0, WAIT_MAX_MS };
	struct slice queues[GET_QUEUES_MAX], id = request_option(q, "id");
	struct get_spec spec = { .queues = queues };
	uint64_t number;

	read_queues(q, queues, &spec.queue_count);
	spec.max = (uint32_t)request_uint(q, "max", max, 1);
	spec.wait_ms = request_duration(q, "wait", wait);
	spec.is_auto_ack = request_choice(q, "ack", ACK_MODES);
	spec.ack_timeout_ms = read_ack_timeout(q);
	spec.match = request_option(q, "match");
	read_pull(q, &spec);
	if (id.data) {
		spec.id = &number;
		number = request_id(q, "id", id);
	}
	if (q->rc == TIDE_OK && id.data &&
	    (request_option(q, "max").data || request_option(q, "wait").data ||
	     spec.match.data || spec.queue_count > 1))
		return error_set(q->err, TIDE_ESYNTAX,
				 "GET id= takes one message of one queue, now: without "
				 "max=, wait= and match=");
	if (q->rc < 0)
		return q->rc;
	return session_consume_get(session_channel(l->base.session, q->channel), &spec, r,
				   q->err);
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
			 "'%.*s' is not a tag: expected numbers, or ranges like 3-7",
			 SLICE_HEAD(word, 40));
}

static int settle(struct line *l, struct request *q, struct settle_spec *spec,
		  struct reply *r)
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
		rc = read_range(slice_cut(&rest, ' '), &ranges[i], q->err);
	spec->ranges = ranges;
	spec->count = words;
	if (rc == TIDE_OK)
		rc = session_settle(session_channel(l->base.session, q->channel), spec, r,
				    q->err);
	if (ranges != inline_ranges)
		mem_free(ranges);
	return rc;
}

COMMAND(ack)
{
	struct settle_spec spec = { .how = SETTLE_ACK };

	return settle(l, q, &spec, r);
}

COMMAND(nack)
{
	const struct number_limits limits = { 0, DURATION_MAX_MS };
	struct settle_spec spec = { .ms = request_duration(q, "delay", limits) };
	bool is_dead = request_has_flag(q, "dead"), is_bury = request_has_flag(q, "bury"),
	     is_requeue = request_has_flag(q, "requeue"),
	     is_delayed = request_option(q, "delay").data != NULL;

	spec.has_priority = request_option(q, "pri").data != NULL;
	spec.priority = read_priority(q);
	spec.reason = request_option(q, "reason");
	if (q->rc < 0)
		return q->rc;
	if (is_dead + is_bury + is_requeue + is_delayed > 1)
		return error_set(q->err, TIDE_ESYNTAX,
				 "NACK takes only one of delay=, bury, dead and requeue; "
				 "pri= and reason= may stand beside it");
	spec.how = is_dead      ? SETTLE_DEAD
		   : is_bury    ? SETTLE_BURY
		   : is_requeue ? SETTLE_REQUEUE
		   : is_delayed ? SETTLE_AFTER
				: SETTLE_RETRY;
	return settle(l, q, &spec, r);
}

COMMAND(touch)
{
	const struct number_limits limits = { 10, INT64_C(24) * 3600 * 1000 };
	struct settle_spec spec = { .how = SETTLE_TOUCH,
				    .ms = request_duration(q, "for", limits) };

	return q->rc < 0 ? q->rc : settle(l, q, &spec, r);
}

COMMAND(peek)
{
	struct peek_spec spec = { .queue = request_name(q, 0, "a queue") };
	struct slice from = request_option(q, "offset");

	spec.max = (unsigned)request_count(q, 1, PEEK_MAX, 1);
	spec.has_state = request_option(q, "state").data;
	spec.partition = request_int(q, "partition", 0, REQUEST_PARTITIONS_MAX - 1, -1);
	if (q->rc == TIDE_OK && from.data)
		q->rc = position_parse(from, &spec.from, q->err);
	/* In the order of enum peek_state. */
	spec.state = (enum peek_state)request_choice(q, "state",
						     "ready, delayed, unacked or buried");
	spec.match = request_option(q, "match");
	spec.after = request_option(q, "after");
	if (q->rc < 0)
		return q->rc;
	return session_peek(l->base.session, &spec, r, q->err);
}

COMMAND(redrive)
{
	struct redrive_spec spec = { .queue = request_name(q, 0, "a queue"),
				     .max = request_count(q, 1, UINT64_MAX - 1,
							  UINT64_MAX),
				     .match = request_option(q, "match"),
				     .to = request_option(q, "to"),
				     .is_routed = request_has_flag(q, "routed") };

	return q->rc < 0 ? q->rc
			 : session_redrive_start(l->base.session, &spec, r, q->err);
}

COMMAND(purge)
{
	struct purge_spec spec = { .queue = request_name(q, 0, "a queue or a topic") };
	struct slice before = request_option(q, "before");

	spec.partition = request_int(q, "partition", 0, REQUEST_PARTITIONS_MAX - 1, -1);
	if (q->rc == TIDE_OK && before.data)
		q->rc = position_parse(before, &spec.before, q->err);
	return q->rc < 0 ? q->rc : session_purge(l->base.session, &spec, r, q->err);
}

static int kick_by_id(struct line *l, struct request *q, struct reply *r)
{
	uint64_t id = request_id(q, "id", request_option(q, "id"));
	const struct by_id_spec spec = { .queue = q->words[0], .ids = &id, .count = 1 };

	if (q->rc == TIDE_OK && q->word_count > 1)
		return error_set(q->err, TIDE_ESYNTAX,
				 "KICK takes a number or id=, not both");
	return q->rc < 0 ? q->rc : session_by_id_kick(l->base.session, &spec, r, q->err);
}

COMMAND(kick)
{
	struct slice queue = request_name(q, 0, "a queue");
	uint64_t max = UINT64_MAX;

	if (request_option(q, "id").data)
		return kick_by_id(l, q, r);

	if (q->rc == TIDE_OK && q->word_count > 1 && slice_is(q->words[1], "quiet"))
		r->is_quiet = true;
	else
		max = request_count(q, 1, UINT64_MAX - 1, UINT64_MAX);
	if (q->rc < 0)
		return q->rc;
	return session_queue_kick(l->base.session, queue, max, r, q->err);
}

/* In the order of enum list_what. */
#define LISTS                                                                          \
	"exchanges, queues, topics, groups, bindings, consumers, connections, locks, " \
	"vhosts, history, now or rules"

COMMAND(list)
{
	const struct number_limits max = { 1, UINT32_MAX }, offset = { 0, UINT32_MAX };
	struct list_spec spec = { .sort = request_option(q, "sort"),
				  .match = request_option(q, "match") };
	unsigned what, direction;

	if (!slice_is_choice(q->words[0], LISTS, &what))
		return error_set(q->err, TIDE_ESYNTAX, "LIST lists " LISTS);
	spec.what = (enum list_what)what;
	spec.max = request_uint(q, "max", max, 0);
	spec.offset = request_uint(q, "offset", offset, 0);
	direction = request_choice(q, "order", "asc or desc");
	if (request_option(q, "order").data)
		spec.direction = direction ? LIST_DESCENDING : LIST_ASCENDING;
	for (int i = 0; i < LIST_MEMBERS; i++)
		spec.only[i] = request_option(q, session_list_members[i]);
	return q->rc < 0 ? q->rc : session_list(l->base.session, &spec, r, q->err);
}

/* In the order of enum stats_kind. */
#define STATS_KINDS "exchange, queue or topic"

/* STATS exchange <name>, STATS queue <name>, STATS topic <name>, or a queue or a topic
 * alone. */
COMMAND(stats)
{
	unsigned last = q->word_count ? q->word_count - 1 : 0, kind = STATS_ANY;
	struct slice name = SLICE("");

	if (last > 0 && !slice_is_choice(q->words[0], STATS_KINDS, &kind))
		request_refuse(q, NULL, q->words[0], STATS_KINDS " before a name");
	if (kind == STATS_EXCHANGE)
		name = request_word(q, last, "an exchange");
	else if (q->word_count > 0)
		name = request_name(q, last, kind == STATS_TOPIC ? "a topic" : "a queue");
	if (q->rc < 0)
		return q->rc;
	return session_report_stats(l->base.session, (enum stats_kind)kind, name, r,
				    q->err);
}
