/* basic.*, tx.* and confirm.*: messages. */
#include "amqp.h"
#include "amqp_message.h"
#include "base/duration.h"
#include "base/mem.h"

#define NO_TEXT ((struct slice){ NULL, 0 })

/* ---- publish ----------------------------------------------------------------------- */

static bool is_word(struct slice s)
{
	return s.len == 0 || slice_is_name(s);
}

static void begin_publish(const struct amqp_request *q)
{
	const struct amqp_value *v = q->v;
	struct amqp_channel *ch = q->channel;
	struct slice exchange = v[AMQP_BASIC_PUBLISH_EXCHANGE].s,
		     key = v[AMQP_BASIC_PUBLISH_ROUTING_KEY].s;
	bool is_mandatory = v[AMQP_BASIC_PUBLISH_MANDATORY].n;

	if (v[AMQP_BASIC_PUBLISH_IMMEDIATE].n)
		amqp_fail(q->l, ch, q->method, AMQP_NOT_IMPLEMENTED, "immediate=true");
	else if (is_mandatory && ch->is_tx)
		amqp_fail(q->l, ch, q->method, AMQP_NOT_IMPLEMENTED,
			  "mandatory=true in a transaction");
	else if (!is_word(exchange) || !is_word(key))
		amqp_fail(q->l, ch, q->method, AMQP_PRECONDITION_FAILED,
			  "an exchange and a routing key have no white space and no "
			  "control characters");
	else {
		ch->content = AMQP_CONTENT_HEADER;
		ch->is_mandatory = is_mandatory;
		ch->exchange_len = (uint8_t)exchange.len;
		ch->key_len = (uint8_t)key.len;
		memcpy(ch->exchange, exchange.data, exchange.len);
		memcpy(ch->key, key.data, key.len);
	}
}

static bool refuse_property(const struct amqp_request *q, enum amqp_property p,
			    const char *expected)
{
	amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
		  "invalid %s: expected %s", amqp_properties_name(p), expected);
	return false;
}

/* A user-id says who has published, and is true. */
static bool check_user(const struct amqp_request *q, const struct amqp_properties *p)
{
	if (!amqp_properties_has(p, AMQP_P_USER_ID) ||
	    (q->l->user && slice_is(p->values[AMQP_P_USER_ID].s, q->l->user)))
		return true;
	return refuse_property(q, AMQP_P_USER_ID, "the user who has logged in");
}

static bool read_expiration(const struct amqp_request *q, const struct amqp_properties *p,
			    struct publish_spec *spec)
{
	uint64_t ms;

	if (!amqp_properties_has(p, AMQP_P_EXPIRATION))
		return true;
	if (!slice_to_uint(p->values[AMQP_P_EXPIRATION].s, DURATION_MAX_MS, &ms))
		return refuse_property(q, AMQP_P_EXPIRATION, "milliseconds");
	spec->ttl_ms = ms ? (int64_t)ms : 1;
	return true;
}

/* They are no longer as the client sent them. */
static void write_anew(struct amqp *l, const struct amqp_properties *p,
		       struct slice *bytes)
{
	buf_clear(&l->properties);
	amqp_properties_write(p, &l->properties);
	*bytes = buf_slice(&l->properties);
}

/* BCC is for the broker alone. The header x-delay changes its sign, as in RabbitMQ: who
 * publishes a message again with the headers that it has got does not delay it again. Not
 * all clients read a negative 'l' well: it is one only where the publish had one, or must
 * be. */
static void change_headers(struct amqp *l, struct amqp_properties *p, int64_t delay_ms,
			   struct slice *bytes)
{
	struct slice rest = p->values[AMQP_P_HEADERS].s;
	struct amqp_field f;

	buf_clear(&l->table);
	while (amqp_field_next(&rest, &f)) {
		bool is_long = f.type == 'l' || delay_ms > INT32_MAX;

		if (delay_ms > 0 && slice_is(f.name, "x-delay"))
			amqp_field_add_number(&l->table, f.name, is_long ? 'l' : 'I',
					      (uint64_t)-delay_ms);
		else if (!slice_is(f.name, "BCC"))
			amqp_field_add(&l->table, f.name, f.type, f.bytes);
	}
	p->values[AMQP_P_HEADERS].s = buf_slice(&l->table);
	write_anew(l, p, bytes);
}

static bool read_delay(const struct amqp_request *q, const struct amqp_properties *p,
		       struct publish_spec *spec)
{
	char room[AMQP_TEXT_MAX];
	struct amqp_field f;
	struct slice text;
	uint64_t ms;

	if (!amqp_field_find(p->values[AMQP_P_HEADERS].s, "x-delay", &f))
		return true;
	if (!amqp_field_text(&f, room, &text))
		text = NO_TEXT;
	if (slice_has_prefix(text, "-"))
		return true;
	if (!slice_to_uint(text, DURATION_MAX_MS, &ms)) {
		amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
			  "invalid x-delay: expected milliseconds, %lld at most",
			  (long long)DURATION_MAX_MS);
		return false;
	}
	spec->delay_ms = (int64_t)ms;
	return true;
}

/* The name of the channel's own queue takes the place of the name for all. False: it has
 * none, and an error is told. */
static bool set_reply_to(const struct amqp_request *q, struct amqp_properties *p,
			 struct slice *bytes)
{
	struct amqp_channel *ch = q->channel;
	struct slice queue = slice_from(ch->reply_queue);

	if (!slice_is(p->values[AMQP_P_REPLY_TO].s, AMQP_REPLY_TO))
		return true;
	if (!queue.data || !session_define_exists(q->l->base.session, queue))
		return refuse_property(q, AMQP_P_REPLY_TO,
				       "a consumer of " AMQP_REPLY_TO " on this channel");
	p->values[AMQP_P_REPLY_TO].s = queue;
	write_anew(q->l, p, bytes);
	return true;
}

static bool refuse_copies(const struct amqp_request *q, struct slice header)
{
	amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
		  "invalid %.*s: expected an array of routing keys, %d in CC and BCC",
		  SLICE_ARG(header), AMQP_COPIES_MAX);
	return false;
}

static bool add_copies(const struct amqp_request *q, const struct amqp_field *header,
		       unsigned *count)
{
	struct slice rest = slice_skip(header->bytes, 4), key;
	struct buf *keys = &q->channel->keys;
	struct amqp_field f;

	if (header->type != 'A')
		return refuse_copies(q, header->name);
	while (amqp_field_next_item(&rest, &f)) {
		key = f.type == 'S' ? slice_skip(f.bytes, 4) : NO_TEXT;
		if (!slice_is_name(key) || key.len > 255 || ++*count > AMQP_COPIES_MAX)
			return refuse_copies(q, header->name);
		buf_append_char(keys, (char)key.len);
		buf_append_slice(keys, key);
	}
	return true;
}

/* @param has_bcc  a header is for the broker alone */
static bool read_copies(const struct amqp_request *q, struct slice table, bool *has_bcc)
{
	struct amqp_field f;
	unsigned count = 0;

	buf_clear(&q->channel->keys);
	*has_bcc = false;
	while (amqp_field_next(&table, &f)) {
		bool is_bcc = slice_is(f.name, "BCC");

		*has_bcc |= is_bcc;
		if ((is_bcc || slice_is(f.name, "CC")) && !add_copies(q, &f, &count))
			return false;
	}
	return true;
}

/* Publishes that are refused for a moment are not an error of the channel: their body is
 * skipped, then they are refused. */
static bool is_for_later(int error)
{
	return error == TIDE_EBUSY || error == TIDE_ELIMIT || error == TIDE_ESHUTDOWN ||
	       error == TIDE_EFULL;
}

static bool prepare(const struct amqp_request *q, struct amqp_properties *p,
		    struct slice bytes, size_t body_len)
{
	struct amqp_channel *ch = q->channel;
	struct amqp_message headers;
	struct publish_spec spec = {
		.exchange = { ch->exchange, ch->exchange_len },
		.key = { ch->key, ch->key_len },
		.priority = (uint8_t)p->values[AMQP_P_PRIORITY].n,
		.headers = headers.items,
		.payload_len = body_len,
	};
	struct error err = { .code = TIDE_OK };
	bool has_bcc;

	if (!read_expiration(q, p, &spec) || !read_delay(q, p, &spec) ||
	    !read_copies(q, p->values[AMQP_P_HEADERS].s, &has_bcc))
		return false;
	if (spec.delay_ms > 0 || has_bcc)
		change_headers(q->l, p, spec.delay_ms, &bytes);
	amqp_message_read(&headers, p, bytes);
	spec.header_count = headers.count;
	if (session_publish_prepare(q->l->base.session, &spec, &ch->msg, &err) < 0 &&
	    !is_for_later(err.code)) {
		amqp_fail_with(q, &err);
		return false;
	}
	ch->refused = err;
	return true;
}

void amqp_basic_header(const struct amqp_request *q, uint64_t body_len,
		       struct slice properties)
{
	struct amqp_channel *ch = q->channel;
	struct amqp *l = q->l;
	struct amqp_properties p;

	ch->content = AMQP_NO_CONTENT;
	if (!amqp_properties_read(properties, &p))
		amqp_fail(l, NULL, q->method, AMQP_SYNTAX_ERROR,
			  "the properties of a message cannot be read");
	else if (body_len > l->base.payload_max)
		amqp_fail(l, ch, q->method, AMQP_PRECONDITION_FAILED,
			  "message size %llu is larger than configured max size %zu",
			  (unsigned long long)body_len, l->base.payload_max);
	else if (check_user(q, &p) && set_reply_to(q, &p, &properties) &&
		 prepare(q, &p, properties, (size_t)body_len)) {
		ch->body_left = body_len;
		l->missing += (size_t)body_len;
		ch->content = AMQP_CONTENT_BODY;
		l->contents++;
		if (body_len == 0)
			amqp_basic_publish(ch);
	}
}

/* A reply that is in no order is for a channel that can be told of it. One that is being
 * closed has its replies dropped. */
static bool is_told(const struct amqp_channel *ch)
{
	return ch->l->state != AMQP_CLOSED && ch->is_open && !ch->is_closing;
}

/* A publish without confirms has been done, or refused. Only what is wrong with the
 * exchange, or with the store, is told. */
static void on_published(void *ctx, struct reply *r)
{
	struct amqp_channel *ch = ctx;
	enum amqp_code code =
		r->kind == REPLY_ERROR ? amqp_code_of(r->error) : AMQP_REPLY_SUCCESS;

	if (is_told(ch) && (code == AMQP_NOT_FOUND || amqp_codec_code_is_hard(code) ||
			    (code == AMQP_ACCESS_REFUSED && r->error == TIDE_EDENIED)))
		amqp_fail(ch->l, ch, AMQP_BASIC_PUBLISH, code, "%s", r->text);
	amqp_leave(ch->l);
}

static struct reply *make_reply(struct amqp_channel *ch, struct channel *session,
				struct msg *m)
{
	const struct amqp_owed owed = {
		.kind = ch->is_tx ? AMQP_OWED_QUIET : AMQP_OWED_PUBLISH,
		.request = AMQP_BASIC_PUBLISH,
		.n = ch->is_confirm ? ++ch->published : 0,
		.msg = ch->is_mandatory && m ? msg_ref(m) : NULL,
	};

	if (!ch->is_confirm && !ch->is_tx && !ch->is_mandatory)
		return reply_create_aside(session, on_published, ch);
	return amqp_owe(ch, &owed);
}

static unsigned copies_of(struct amqp_channel *ch, struct slice keys[AMQP_COPIES_MAX])
{
	struct slice rest = buf_slice(&ch->keys);
	unsigned count = 0;

	while (rest.len > 0) {
		size_t len = (uint8_t)rest.data[0];

		keys[count++] = (struct slice){ rest.data + 1, len };
		rest = slice_skip(rest, 1 + len);
	}
	return count;
}

void amqp_basic_publish(struct amqp_channel *ch)
{
	struct amqp *l = ch->l;
	struct channel *session = session_channel(l->base.session, ch->number);
	struct slice keys[AMQP_COPIES_MAX];
	const struct publish_demand demand = { .must = ch->is_mandatory,
					       .keys = keys,
					       .key_count = copies_of(ch, keys) };
	struct msg *m = ch->msg;
	struct reply *r;

	ch->msg = NULL;
	ch->content = AMQP_NO_CONTENT;
	if (--l->contents == 0)
		protocol_received(&l->base);
	r = make_reply(ch, session, m);
	if (m) {
		session_publish_take(l->base.session, m, &demand, r);
		return;
	}
	session_transaction_refuse(session, &ch->refused);
	reply_error(r, &ch->refused);
}

/* ---- consume ----------------------------------------------------------------------- */

static struct amqp_tag **find_tag(struct amqp_channel *ch, struct slice tag)
{
	struct amqp_tag **at = &ch->tags;

	while (*at && !slice_is_equal((struct slice){ (*at)->text, (*at)->len }, tag))
		at = &(*at)->next;
	return at;
}

static void add_tag(struct amqp_channel *ch, struct slice tag)
{
	struct amqp_tag *t = mem_alloc(sizeof(*t) + tag.len);

	t->next = ch->tags;
	t->len = tag.len;
	memcpy(t->text, tag.data, tag.len);
	ch->tags = t;
}

void amqp_basic_forget_tag(struct amqp_channel *ch, struct slice tag)
{
	struct amqp_tag **at = find_tag(ch, tag), *t = *at;

	if (!t)
		return;
	*at = t->next;
	mem_free(t);
}

/* How long a message may be held: as RabbitMQ lets it, unless the queue has a word.
 * False: an error is told. */
static bool read_lease(const struct amqp_request *q, struct slice queue, uint32_t *lease)
{
	struct define_facts facts;
	struct error err;

	if (session_define_look(q->l->base.session, DEFINE_QUEUE, queue, &facts, &err) <
	    0) {
		/* Who may do nothing with it is told so by what asks to read it. */
		if (err.code != TIDE_EDENIED)
			amqp_fail_with(q, &err);
		return err.code == TIDE_EDENIED;
	}
	args_deinit(&facts.options);
	if (!*lease && !facts.has_lease)
		*lease = AMQP_LEASE_MS;
	if (!facts.is_locked && !facts.is_topic)
		return true;
	amqp_fail(q->l, q->channel, q->method,
		  facts.is_locked ? AMQP_RESOURCE_LOCKED : AMQP_NOT_IMPLEMENTED,
		  facts.is_locked ? "queue '%.*s' belongs to another connection"
				  : "'%.*s' is a topic: read it by another protocol",
		  SLICE_HEAD(queue, 64));
	return false;
}

static bool refuse_argument(const struct amqp_request *q, const struct amqp_field *f)
{
	amqp_fail(q->l, q->channel, q->method, AMQP_NOT_IMPLEMENTED,
		  "basic.consume with the argument '%.*s'", SLICE_HEAD(f->name, 64));
	return false;
}

static bool read_consume(const struct amqp_request *q, struct slice table,
			 struct subscribe_spec *spec)
{
	struct amqp_field f;
	char room[AMQP_TEXT_MAX];
	struct slice text;
	int64_t n;

	while (amqp_field_next(&table, &f)) {
		bool is_number = amqp_field_text(&f, room, &text) && f.type != 'S' &&
				 slice_to_int(text, INT32_MIN, INT32_MAX, &n);

		if (slice_is(f.name, "x-priority") && is_number)
			spec->priority =
				n < SUBSCRIBE_PRIORITY_MIN   ? SUBSCRIBE_PRIORITY_MIN
				: n > SUBSCRIBE_PRIORITY_MAX ? SUBSCRIBE_PRIORITY_MAX
							     : (int32_t)n;
		else if (slice_is(f.name, "x-consumer-timeout") && is_number &&
			 n >= MSG_ACK_TIMEOUT_MIN_MS)
			spec->ack_timeout_ms = n < MSG_ACK_TIMEOUT_MAX_MS
						       ? (uint32_t)n
						       : MSG_ACK_TIMEOUT_MAX_MS;
		else if (slice_has_prefix(f.name, "x-") &&
			 !slice_is(f.name, "x-cancel-on-ha-failover"))
			return refuse_argument(q, &f);
	}
	return true;
}

static void subscribe(const struct amqp_request *q, const struct subscribe_spec *spec)
{
	bool is_quiet = q->v[AMQP_BASIC_CONSUME_NO_WAIT].n;
	struct amqp_owed *last;
	struct reply *r = amqp_answer(q, is_quiet, spec->sid, 0);
	struct error err;
	int rc = session_consume_subscribe(q->session, spec, r, &err);

	if (rc == TIDE_OK) {
		add_tag(q->channel, spec->sid);
		return;
	}
	last = &q->channel->owed[(q->channel->owed_first + q->channel->owed_count - 1) &
				 (q->channel->owed_cap - 1)];
	last->kind = AMQP_OWED_NOTHING;
	reply_ok(r);
	if (rc == TIDE_EEXISTS)
		amqp_fail(q->l, q->channel, q->method, AMQP_ACCESS_REFUSED, "%s",
			  err.text);
	else
		amqp_fail_with(q, &err);
}

/* A queue of the connection alone, which goes with its consumer. */
static bool make_reply_queue(const struct amqp_request *q, struct subscribe_spec *spec)
{
	static const struct slice flags[][2] = {
		{ SLICE("durable"), SLICE("0") },
		{ SLICE("exclusive"), SLICE("1") },
		{ SLICE("auto-delete"), SLICE("1") },
	};
	struct session_facts facts = session_facts(q->l->base.session);
	struct amqp_channel *ch = q->channel;
	struct declare_spec queue = { .kind = DEFINE_QUEUE };
	struct args args = { 0 };
	struct buf name = { 0 };
	struct error err;
	struct reply *r;
	int rc = TIDE_OK;

	buf_printf(&name, AMQP_REPLY_TO ".%u.%llu.%u", facts.node,
		   (unsigned long long)facts.number, ch->number);
	mem_free(ch->reply_queue);
	ch->reply_queue = mem_strdup(buf_cstr(&name));
	buf_deinit(&name);
	for (size_t i = 0; i < 3 && rc == TIDE_OK; i++)
		rc = args_add(&args, flags[i][0], flags[i][1]);
	queue.name = spec->queue = slice_from(ch->reply_queue);
	queue.args = &args;
	r = amqp_answer(q, true, NO_TEXT, 0);
	rc = session_define_declare(q->l->base.session, &queue, r, &err);
	args_deinit(&args);
	if (rc < 0)
		reply_error(r, &err);
	return rc == TIDE_OK;
}

/* The queue to consume from. False: an error is told. */
static bool find_queue(const struct amqp_request *q, struct subscribe_spec *spec)
{
	if (!slice_is(q->v[AMQP_BASIC_CONSUME_QUEUE].s, AMQP_REPLY_TO))
		return amqp_queue_name(q, AMQP_BASIC_CONSUME_QUEUE, &spec->queue);
	if (spec->is_auto_ack &&
	    (!q->channel->reply_queue ||
	     !session_define_exists(q->l->base.session,
				    slice_from(q->channel->reply_queue))))
		return make_reply_queue(q, spec);
	amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
		  spec->is_auto_ack ? "reply consumer already set"
				    : "reply consumer cannot acknowledge");
	return false;
}

static void consume(const struct amqp_request *q)
{
	const struct amqp_value *v = q->v;
	struct amqp_channel *ch = q->channel;
	struct subscribe_spec spec = {
		.sid = v[AMQP_BASIC_CONSUME_CONSUMER_TAG].s,
		.prefetch = ch->prefetch,
		.is_auto_ack = v[AMQP_BASIC_CONSUME_NO_ACK].n,
		.is_exclusive = v[AMQP_BASIC_CONSUME_EXCLUSIVE].n,
		.partition = -1,
	};
	struct buf chosen = { 0 };

	if (spec.sid.len == 0) {
		buf_printf(&chosen, "amq.ctag-%llu-%u-%llu",
			   (unsigned long long)session_facts(q->l->base.session).number,
			   ch->number, (unsigned long long)++ch->last_consumer);
		spec.sid = buf_slice(&chosen);
	}
	if (memchr(spec.sid.data, '\0', spec.sid.len) || *find_tag(ch, spec.sid))
		amqp_fail(q->l, NULL, q->method, AMQP_NOT_ALLOWED,
			  "attempt to reuse consumer tag '%.*s'",
			  SLICE_HEAD(spec.sid, 64));
	else if (find_queue(q, &spec) &&
		 read_consume(q, v[AMQP_BASIC_CONSUME_ARGUMENTS].s, &spec) &&
		 read_lease(q, spec.queue, &spec.ack_timeout_ms))
		subscribe(q, &spec);
	buf_deinit(&chosen);
}

/* A consumer that is not there has ended already. */
static void cancel(const struct amqp_request *q)
{
	struct slice tag = q->v[AMQP_BASIC_CANCEL_CONSUMER_TAG].s;
	struct reply *r = amqp_answer(q, q->v[AMQP_BASIC_CANCEL_NO_WAIT].n, tag, 0);
	struct error err;

	amqp_basic_forget_tag(q->channel, tag);
	if (session_consume_unsubscribe(q->session, tag, r, &err) < 0)
		reply_ok(r);
}

static void limit(const struct amqp_request *q)
{
	const struct amqp_value *v = q->v;
	uint32_t count = (uint32_t)v[AMQP_BASIC_QOS_PREFETCH_COUNT].n;
	uint32_t most = count ? count : AMQP_PREFETCH_MAX;

	if (v[AMQP_BASIC_QOS_PREFETCH_SIZE].n) {
		amqp_fail(q->l, q->channel, q->method, AMQP_NOT_IMPLEMENTED,
			  "prefetch_size!=0");
		return;
	}
	if (v[AMQP_BASIC_QOS_GLOBAL].n) {
		session_limit_change(q->session, most);
	} else {
		q->channel->prefetch = most;
		session_limit_consumers(q->session, most);
	}
	amqp_answer_ok(q, false, NO_TEXT, 0);
}

static void get(const struct amqp_request *q)
{
	struct get_spec spec = { .queue_count = 1,
				 .max = 1,
				 .is_auto_ack = q->v[AMQP_BASIC_GET_NO_ACK].n,
				 .partition = -1 };
	struct amqp_owed owed = { .kind = AMQP_OWED_GET, .request = q->method };
	struct reply *r;
	struct slice queue;
	struct error err;

	if (!amqp_queue_name(q, AMQP_BASIC_GET_QUEUE, &queue) ||
	    !read_lease(q, queue, &spec.ack_timeout_ms))
		return;
	spec.queues = &queue;
	owed.text = mem_strndup(queue.data, queue.len);
	r = amqp_owe(q->channel, &owed);
	if (session_consume_get(q->session, &spec, r, &err) < 0)
		reply_error(r, &err);
}

/* ---- acknowledge ------------------------------------------------------------------- */

/* Acks have no answer, and wait for none. What was settled before is no error. */
static void on_settled(void *ctx, struct reply *r)
{
	struct amqp_channel *ch = ctx;

	if (r->kind == REPLY_ERROR && amqp_code_of(r->error) == AMQP_INTERNAL_ERROR &&
	    is_told(ch))
		amqp_fail(ch->l, ch, AMQP_BASIC_ACK, AMQP_INTERNAL_ERROR, "%s", r->text);
	amqp_leave(ch->l);
}

static void settle(const struct amqp_request *q, struct tag_range range, enum settle how)
{
	const struct settle_spec spec = { .how = how, .ranges = &range, .count = 1 };
	struct reply *r = reply_create_aside(q->session, on_settled, q->channel);
	struct error err;
	int rc = session_settle(q->session, &spec, r, &err);

	if (rc < 0)
		reply_ok(r);
	if (rc < 0 && rc != TIDE_ELEASE)
		amqp_fail_with(q, &err);
}

/* @param is_multiple  all up to the tag; of tag 0: all */
static void settle_tag(const struct amqp_request *q, uint64_t tag, bool is_multiple,
		       enum settle how)
{
	uint64_t last = q->channel->last_tag;

	if (tag > last || (tag == 0 && !is_multiple))
		amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
			  "unknown delivery tag %llu", (unsigned long long)tag);
	else if (last > 0)
		settle(q, (struct tag_range){ is_multiple ? 1 : tag, tag ? tag : last },
		       how);
}

static void recover(const struct amqp_request *q)
{
	if (!q->v[AMQP_BASIC_RECOVER_REQUEUE].n) {
		amqp_fail(q->l, q->channel, q->method, AMQP_NOT_IMPLEMENTED,
			  "requeue=false");
		return;
	}
	if (session_held_any(q->session))
		settle(q, (struct tag_range){ 1, q->channel->last_tag }, SETTLE_RETURN);
	if (q->method == AMQP_BASIC_RECOVER)
		amqp_answer_ok(q, false, NO_TEXT, 0);
}

static enum settle back(bool is_requeue)
{
	return is_requeue ? SETTLE_RETURN : SETTLE_DEAD;
}

void amqp_basic_request(const struct amqp_request *q)
{
	const struct amqp_value *v = q->v;

	switch (q->method) {
	case AMQP_BASIC_PUBLISH:
		begin_publish(q);
		break;
	case AMQP_BASIC_CONSUME:
		consume(q);
		break;
	case AMQP_BASIC_CANCEL:
		cancel(q);
		break;
	case AMQP_BASIC_QOS:
		limit(q);
		break;
	case AMQP_BASIC_GET:
		get(q);
		break;
	case AMQP_BASIC_ACK:
		settle_tag(q, v[AMQP_BASIC_ACK_DELIVERY_TAG].n,
			   v[AMQP_BASIC_ACK_MULTIPLE].n, SETTLE_ACK);
		break;
	case AMQP_BASIC_REJECT:
		settle_tag(q, v[AMQP_BASIC_REJECT_DELIVERY_TAG].n, false,
			   back(v[AMQP_BASIC_REJECT_REQUEUE].n));
		break;
	case AMQP_BASIC_NACK:
		settle_tag(q, v[AMQP_BASIC_NACK_DELIVERY_TAG].n,
			   v[AMQP_BASIC_NACK_MULTIPLE].n,
			   back(v[AMQP_BASIC_NACK_REQUEUE].n));
		break;
	case AMQP_BASIC_RECOVER:
	case AMQP_BASIC_RECOVER_ASYNC:
		recover(q);
		break;
	case AMQP_BASIC_CANCEL_OK:
		break; /* of the broker's own cancel */
	default:
		amqp_fail(q->l, NULL, q->method, AMQP_COMMAND_INVALID,
			  "%s is not expected here", amqp_codec_method(q->method)->name);
	}
}

/* ---- transactions and confirms ----------------------------------------------------- */

/* @param is_first  it is tx.select, and answered */
static void begin(const struct amqp_request *q, bool is_first)
{
	struct reply *r = amqp_answer(q, !is_first, NO_TEXT, 0);
	struct error err;

	if (session_transaction_begin(q->session, NO_TEXT, r, &err) < 0)
		reply_error(r, &err);
}

static void end(const struct amqp_request *q)
{
	struct reply *r = amqp_answer(q, false, NO_TEXT, 0);
	struct error err;
	int rc = q->method == AMQP_TX_COMMIT
			 ? session_transaction_commit(q->session, NO_TEXT, r, &err)
			 : session_transaction_rollback(q->session, NO_TEXT, r, &err);

	if (rc < 0)
		reply_error(r, &err);
	else
		begin(q, false);
}

static void refuse_mode(const struct amqp_request *q, const char *why)
{
	amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED, "%s", why);
}

void amqp_tx_request(const struct amqp_request *q)
{
	struct amqp_channel *ch = q->channel;

	if (q->method == AMQP_CONFIRM_SELECT && ch->is_tx)
		refuse_mode(q, "cannot switch from tx to confirm mode");
	else if (q->method == AMQP_CONFIRM_SELECT) {
		ch->is_confirm = true;
		amqp_answer_ok(q, q->v[AMQP_CONFIRM_SELECT_NOWAIT].n, NO_TEXT, 0);
	} else if (q->method == AMQP_TX_SELECT && ch->is_confirm)
		refuse_mode(q, "cannot switch from confirm to tx mode");
	else if (q->method == AMQP_TX_SELECT && ch->is_tx)
		amqp_answer_ok(q, false, NO_TEXT, 0);
	else if (q->method == AMQP_TX_SELECT) {
		ch->is_tx = true;
		begin(q, true);
	} else if (q->method != AMQP_TX_COMMIT && q->method != AMQP_TX_ROLLBACK)
		amqp_fail(q->l, NULL, q->method, AMQP_COMMAND_INVALID,
			  "%s is not expected here", amqp_codec_method(q->method)->name);
	else if (!ch->is_tx)
		refuse_mode(q, "channel is not transactional");
	else
		end(q);
}
