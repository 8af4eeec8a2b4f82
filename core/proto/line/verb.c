#include "base/bytes.h"
#include "base/mem.h"
#include "line.h"
#include "ops/message_verbs.h"
#include "request.h"

#define TAG_RANGES_INLINE 64

static void write_help(struct buf *out);

static void hello_document(struct line *l, struct json *j)
{
	struct session_facts facts = session_facts(l->base.session);

	json_object_begin(j);
	json_member_text(j, "server", "tidemq");
	json_member_text(j, "version", TIDE_VERSION);
	json_member_int(j, "protocol", 1);
	json_member_int(j, "node", facts.node);
	json_member_string(j, "vhost", facts.vhost);
	if (facts.cells > 1) {
		json_member_int(j, "cell", facts.cell);
		json_member_int(j, "cells", facts.cells);
	}
	json_member_text(j, "confirm", facts.confirm);
	json_member_int(j, "heartbeat_ms", l->base.heartbeat_in_ms);
	json_key(j, "limits");
	json_object_begin(j);
	json_member_int(j, "line", LINE_MAX_BYTES);
	json_member_int(j, "payload", (int64_t)l->base.payload_max);
	json_member_int(j, "headers", MSG_HEADERS_MAX);
	json_member_int(j, "name", NAME_LEN_MAX);
	json_member_int(j, "channels", facts.channels_max);
	json_member_int(j, "prefetch", MESSAGE_VERBS_PREFETCH_MAX);
	json_member_int(j, "get", MESSAGE_VERBS_GET_MAX);
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

/* A client that has to log in may try again. */
static bool is_late(const struct line *l)
{
	return l->has_asked && session_login_check(l->base.session, NULL) == TIDE_OK;
}

/* The value of an option, or of a flag, by its name on the line. */
static struct slice option_of(void *ctx, const struct parameter *p, struct error *err)
{
	const struct request *q = ctx;
	const char *name = operation_line_name(p);

	if (p->type == PARAMETER_FLAG && request_has_flag(q, name))
		return SLICE("1");
	return request_option(q, name);
}

static struct operation_request options_on_line(struct request *q)
{
	return (struct operation_request){ .is_line = true,
					   .ctx = q,
					   .value = option_of };
}

/* The first HELLO has led to its owner. */
static int check_cell(const struct line *l, uint64_t cell, struct error *err)
{
	struct session_facts facts = session_facts(l->base.session);

	if (cell >= facts.cells)
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no cell %llu: they are numbered from 0 to %u",
				 (unsigned long long)cell, facts.cells - 1);
	if (cell != facts.cell)
		return error_set(err, TIDE_EMISMATCH,
				 "this connection is to the owner of cell %u: begin "
				 "another one with HELLO cell=%llu",
				 facts.cell, (unsigned long long)cell);
	return TIDE_OK;
}

static int command_hello(struct line *l, struct request *q, struct reply *r)
{
	const struct operation_request options = options_on_line(q);
	struct session_login login = { .on_done = on_logged_in, .ctx = l };
	struct message_options o = { 0 };

	if (is_late(l))
		return error_set(q->err, TIDE_EDENIED, "HELLO must be the first request");
	if (operation_read(message_verbs_hello, &options, &o, q->err) < 0)
		return q->err->code;
	if (o.cell != UINT64_MAX && check_cell(l, o.cell, q->err) < 0)
		return q->err->code;
	login.user = o.user;
	login.password = o.password;
	login.vhost = o.vhost;
	if (!o.vhost.data && o.cell != UINT64_MAX) {
		login.vhost = SLICE("/");
		login.is_any_vhost = true;
	}
	if (o.name.data)
		session_set_name(l->base.session, o.name);
	session_limit_channel(session_channel(l->base.session, 0), (uint32_t)o.prefetch);
	l->base.heartbeat_in_ms = l->base.heartbeat_out_ms = o.heartbeat_ms;
	return session_login_start(l->base.session, &login, r, q->err);
}

static int command_ping(struct line *l, struct request *q, struct reply *r)
{
	reply_ok(r);
	return TIDE_OK;
}

static int command_help(struct line *l, struct request *q, struct reply *r)
{
	struct buf text = { 0 };

	write_help(&text);
	reply_data_take(r, &text);
	return TIDE_OK;
}

static int command_quit(struct line *l, struct request *q, struct reply *r)
{
	reply_ok(r);
	session_leave(l->base.session);
	l->state = LINE_CLOSED;
	l->base.ops->finish(l->base.ctx);
	return TIDE_OK;
}

static int command_open(struct line *l, struct request *q, struct reply *r)
{
	const struct operation_request options = options_on_line(q);
	struct message_options o = { 0 };
	struct channel *ch;

	if (operation_read(message_verbs_open, &options, &o, q->err) < 0 ||
	    session_open(l->base.session, q->channel, &ch, q->err) < 0)
		return q->err->code;
	session_limit_channel(ch, (uint32_t)o.prefetch);
	reply_ok(reply_create(ch, q->is_quiet));
	return TIDE_OK;
}

static int command_close(struct line *l, struct request *q, struct reply *r)
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

/* @param demand  NULL: it is an EXPLAIN */
static int read_publish(struct request *q, struct publish_spec *spec,
			struct publish_demand *demand)
{
	struct operation_request options;

	*spec = (struct publish_spec){
		.headers = q->headers,
		.header_count = q->header_count,
		.payload_len = (size_t)q->payload_len,
	};
	spec->exchange = request_word(q, 0, "an exchange");
	spec->key = request_word(q, 1, "a key");
	if (q->rc < 0)
		return q->rc;
	if (demand && q->option_count == 0) {
		demand->must = request_has_flag(q, "must");
		demand->has_expected = false;
		return TIDE_OK;
	}
	options = options_on_line(q);
	return message_verbs_read_publish(demand ? message_verbs_publish
						 : message_verbs_explain,
					  &options, spec, demand, q->err);
}

static int command_publish(struct line *l, struct request *q, struct reply *r)
{
	struct publish_spec spec;
	int rc = read_publish(q, &spec, &l->demand);

	(void)r; /* made when the payload is there */
	if (rc == TIDE_OK)
		rc = session_publish_prepare(l->base.session, &spec, &l->base.msg,
					     q->err);
	if (rc < 0)
		return rc;
	l->channel = q->channel;
	l->is_quiet = q->is_quiet;
	l->base.filled = 0;
	l->state = LINE_PAYLOAD;
	return TIDE_OK;
}

static int command_explain(struct line *l, struct request *q, struct reply *r)
{
	struct publish_spec spec;
	int rc = read_publish(q, &spec, NULL);

	return rc < 0 ? rc : session_explain(l->base.session, &spec, r, q->err);
}

static int command_subscribe(struct line *l, struct request *q, struct reply *r)
{
	const struct operation_request options = options_on_line(q);
	struct subscribe_spec spec = { .queue = request_name(q, 0, "a queue") };

	spec.sid = request_name(q, 1, "a subscription's id");
	if (q->rc == TIDE_OK && slice_is(spec.sid, "-"))
		return error_set(q->err, TIDE_ESYNTAX,
				 "'-' cannot be the name of a subscription");
	if (q->rc < 0 || message_verbs_read_subscribe(&options, &spec, q->err) < 0)
		return q->err->code;
	return session_consume_subscribe(session_channel(l->base.session, q->channel),
					 &spec, r, q->err);
}

static int command_unsubscribe(struct line *l, struct request *q, struct reply *r)
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

/* Options that do not go together. */
static int check_get(const struct request *q, const struct get_spec *spec)
{
	if (spec->offset.kind && !spec->group.data &&
	    ((request_option(q, "ack").data && !spec->is_auto_ack) ||
	     spec->ack_timeout_ms))
		return error_set(q->err, TIDE_ESYNTAX,
				 "a GET with offset= gives nothing to hold: ack=manual "
				 "and ack-timeout= need group=");
	if (spec->id &&
	    (request_option(q, "max").data || request_option(q, "wait").data ||
	     spec->match.data || spec->queue_count > 1))
		return error_set(q->err, TIDE_ESYNTAX,
				 "GET id= takes one message of one queue, now: without "
				 "max=, wait= and match=");
	return TIDE_OK;
}

static int command_get(struct line *l, struct request *q, struct reply *r)
{
	const struct operation_request options = options_on_line(q);
	struct slice queues[GET_QUEUES_MAX];
	struct get_spec spec = { .queues = queues };
	uint64_t id;

	read_queues(q, queues, &spec.queue_count);
	if (request_option(q, "id").data)
		spec.id = &id;
	if (q->rc < 0 || message_verbs_read_get(&options, &spec, &id, q->err) < 0 ||
	    check_get(q, &spec) < 0)
		return q->err->code;
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

static int read_settle(struct request *q, enum settle how, struct settle_spec *spec)
{
	const struct operation_request options = options_on_line(q);

	return message_verbs_read_settle(&options, how, spec, q->err);
}

static int settle(struct line *l, struct request *q, enum settle how, struct reply *r)
{
	struct tag_range inline_ranges[TAG_RANGES_INLINE], *ranges = inline_ranges;
	struct settle_spec spec = { .how = how };
	struct slice rest = q->tags;
	size_t words = 1;
	int rc = how == SETTLE_ACK ? TIDE_OK : read_settle(q, how, &spec);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < rest.len; i++)
		words += rest.data[i] == ' ';
	if (words > TAG_RANGES_INLINE)
		ranges = mem_alloc(words * sizeof(*ranges));
	for (size_t i = 0; i < words && rc == TIDE_OK; i++)
		rc = read_range(slice_cut(&rest, ' '), &ranges[i], q->err);
	spec.ranges = ranges;
	spec.count = words;
	if (rc == TIDE_OK)
		rc = session_settle(session_channel(l->base.session, q->channel), &spec,
				    r, q->err);
	if (ranges != inline_ranges)
		mem_free(ranges);
	return rc;
}

static int command_ack(struct line *l, struct request *q, struct reply *r)
{
	return settle(l, q, SETTLE_ACK, r);
}

static int command_nack(struct line *l, struct request *q, struct reply *r)
{
	return settle(l, q, SETTLE_RETRY, r);
}

static int command_touch(struct line *l, struct request *q, struct reply *r)
{
	return settle(l, q, SETTLE_TOUCH, r);
}

static int command_transaction_begin(struct line *l, struct request *q, struct reply *r)
{
	return session_transaction_begin(session_channel(l->base.session, q->channel),
					 SLICE(""), r, q->err);
}

static int command_transaction_commit(struct line *l, struct request *q, struct reply *r)
{
	return session_transaction_commit(session_channel(l->base.session, q->channel),
					  SLICE(""), r, q->err);
}

static int command_transaction_rollback(struct line *l, struct request *q,
					struct reply *r)
{
	return session_transaction_rollback(session_channel(l->base.session, q->channel),
					    SLICE(""), r, q->err);
}

/* ---- operations ---- */

static struct slice value_of(void *ctx, const struct parameter *p, struct error *err)
{
	struct request *q = ctx;
	const char *name = operation_line_name(p);
	unsigned word = 0;

	if (p->type == PARAMETER_IDS)
		return q->tags;
	if (!(p->features & PARAMETER_WORD) && p->line && !request_option(q, name).data &&
	    operation_takes(q->operation, slice_from(p->name), OPERATION_LINE_OPTIONS))
		return request_option(q, p->name);
	if (!(p->features & PARAMETER_WORD))
		return option_of(ctx, p, err);
	while (operation_word(q->operation, word) != p)
		word++;
	return word < q->word_count ? q->words[word] : (struct slice){ NULL, 0 };
}

/* All options that have no row of their own. */
static int options_of(void *ctx, const struct operation *o, const struct parameter *p,
		      struct args *out, struct error *err)
{
	struct request *q = ctx;

	for (unsigned i = 0; i < q->option_count; i++) {
		struct slice name = q->options[i].name;
		int rc = operation_takes(o, name, OPERATION_LINE_OPTIONS)
				 ? TIDE_OK
				 : args_add(out, name, q->options[i].value);

		if (rc < 0)
			return error_set(err, TIDE_ESYNTAX,
					 rc == TIDE_EEXISTS
						 ? "option '%" SLICE_FMT "' appears twice"
						 : "option '%" SLICE_FMT
						   "' has a name or value that cannot be "
						   "stored",
					 SLICE_ARG(name));
	}
	return TIDE_OK;
}

static int run_operation(struct line *l, struct request *q, struct reply *r)
{
	const struct operation_request request = {
		.is_line = true, .ctx = q, .value = value_of, .options = options_of
	};
	const struct operation_call call = {
		.session = l->base.session,
		.channel = session_channel(l->base.session, q->channel),
	};

	return operation_run(q->operation, &request, &call, r, q->err);
}

/* clang-format off */

/* The verbs of every message come first: they are searched from the front. */
static const struct verb verbs[] = {
	{ "PUB", 2, "exchange key", VERB_PAYLOAD | VERB_HEADERS | VERB_TRANSACTED, message_verbs_publish, command_publish },
	{ "ACK", 0, NULL, VERB_TAGS | VERB_TRANSACTED, NULL, command_ack },
	{ "HELLO", 0, NULL, VERB_ANSWERS | VERB_NO_LOGIN, message_verbs_hello, command_hello },
	{ "PING", 0, NULL, VERB_NO_LOGIN, NULL, command_ping },
	{ "QUIT", 0, NULL, VERB_NO_LOGIN, NULL, command_quit },
	{ "OPEN", 0, NULL, VERB_NO_CHANNEL, message_verbs_open, command_open },
	{ "CLOSE", 0, NULL, VERB_NO_CHANNEL, NULL, command_close },
	{ "SUB", 2, "queue sid", 0, message_verbs_subscribe, command_subscribe },
	{ "UNSUB", 1, "sid", 0, NULL, command_unsubscribe },
	{ "GET", 1, "queue", VERB_ANSWERS | VERB_LIST, message_verbs_get, command_get },
	{ "NACK", 0, NULL, VERB_TAGS | VERB_TRANSACTED, message_verbs_nack, command_nack },
	{ "TOUCH", 0, NULL, VERB_TAGS, message_verbs_touch, command_touch },
	{ "EXPLAIN", 2, "exchange key", VERB_DOCUMENT | VERB_ANSWERS | VERB_HEADERS, message_verbs_explain, command_explain },
	{ "BEGIN", 0, NULL, 0, NULL, command_transaction_begin },
	{ "COMMIT", 0, NULL, 0, NULL, command_transaction_commit },
	{ "ROLLBACK", 0, NULL, 0, NULL, command_transaction_rollback },
	{ "HELP", 0, NULL, VERB_DOCUMENT | VERB_ANSWERS | VERB_NO_LOGIN, NULL, command_help },
	{ "", 0, NULL, 0, NULL, NULL },
};
/* clang-format on */

const struct verb *verb_table(void)
{
	return verbs;
}

/* Verbs are letters. Apart from its other case, a letter has no other byte that is the
 * same without that bit. */
#define CASE_BIT 0x20

const struct verb *verb_find(struct slice name)
{
	char word[VERB_NAME_MAX + 1] = { 0 };

	if (name.len == 0 || name.len > VERB_NAME_MAX)
		return NULL;
	for (size_t i = 0; i < name.len; i++) {
		word[i] = (char)(name.data[i] & ~CASE_BIT);
		if (!word[i])
			return NULL; /* not the zero after a verb */
	}
	/* Eight bytes at once. */
	uint64_t first = bytes_load_eight(word), second = bytes_load_eight(word + 8);

	for (const struct verb *v = verbs; v->name[0]; v++)
		if (bytes_load_eight(v->name) == first &&
		    bytes_load_eight(v->name + 8) == second)
			return v;
	return NULL;
}

unsigned verb_features(const struct operation *o)
{
	return (o->features & OPERATION_DOCUMENT ? VERB_DOCUMENT : 0u) |
	       (o->features & OPERATION_ANSWERS ? VERB_ANSWERS : 0u) |
	       (operation_parameter(o, PARAMETER_IDS) ? VERB_LIST : 0u) |
	       (operation_parameter(o, PARAMETER_OPTIONS) ? VERB_ANY_OPTIONS : 0u);
}

bool verb_takes(const struct verb *v, struct slice name, bool is_flag)
{
	for (const struct parameter *p = v->takes; p && p->name; p++)
		if ((p->type == PARAMETER_FLAG) == is_flag &&
		    slice_is(name, operation_line_name(p)))
			return true;
	return false;
}

static void add_usage(const struct verb *v, struct buf *out)
{
	struct slice words = slice_from(v->words);

	buf_append_text(out, v->name);
	while (words.len > 0) {
		struct slice name = slice_cut(&words, ' ');

		buf_printf(out, " <%" SLICE_FMT ">", SLICE_ARG(name));
	}
	if (v->features & VERB_LIST)
		buf_append_text(out, "...");
	if (v->features & VERB_TAGS)
		buf_append_text(out, " <tag|first-last>...");
	for (const struct parameter *p = v->takes; p && p->name; p++)
		buf_printf(out, " [%s%s]", operation_line_name(p),
			   p->type == PARAMETER_FLAG ? "" : "=");
	if (v->features & VERB_HEADERS)
		buf_append_text(out, " [h:name=value]...");
	if (v->features & VERB_PAYLOAD)
		buf_append_text(out, " <length>, then a line with the payload");
	buf_append_text(out, "\r\n");
}

static void write_help(struct buf *out)
{
	const struct operation *o;

	for (const struct verb *v = verbs; v->name[0]; v++)
		add_usage(v, out);
	for (size_t i = 0; (o = operation_at(i)) != NULL; i++) {
		if (!o->line)
			continue;
		operation_write_usage(o, out);
		buf_append_text(out, "\r\n");
	}
	buf_append_text(out,
			"'-' stands for an empty word; single spaces separate words; "
			"the full text is docs/protocol.md\r\n");
}

int verb_run(struct line *l, struct request *q, struct reply *r)
{
	return q->verb ? q->verb->run(l, q, r) : run_operation(l, q, r);
}
