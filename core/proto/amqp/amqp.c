/* Frames, and the methods of connections and channels. */
#include "amqp.h"

#include <stdio.h>

#include "base/container.h"
#include "base/mem.h"

static const char preamble[] = { 'A', 'M', 'Q', 'P', 0, 0, 9, 1 };

/* ---- channels ---------------------------------------------------------------------- */

/* Open, or being closed; or NULL. */
static struct amqp_channel *find_channel(const struct amqp *l, unsigned number)
{
	struct amqp_channel *ch = number < l->channel_cap ? l->channels[number] : NULL;

	return ch && (ch->is_open || ch->is_closing) ? ch : NULL;
}

static struct amqp_channel *make_channel(struct amqp *l, unsigned number)
{
	struct amqp_channel *ch;

	if (number >= l->channel_cap) {
		unsigned cap = number < 8 ? 8 : 2 * number;

		l->channels = mem_realloc(l->channels, cap * sizeof(*l->channels));
		memset(l->channels + l->channel_cap, 0,
		       (cap - l->channel_cap) * sizeof(*l->channels));
		l->channel_cap = cap;
	}
	ch = l->channels[number];
	if (!ch)
		ch = l->channels[number] = mem_zalloc(sizeof(*ch));
	ch->l = l;
	ch->number = number;
	return ch;
}

static void drop_content(struct amqp_channel *ch)
{
	struct amqp *l = ch->l;

	if (ch->content == AMQP_CONTENT_BODY) {
		l->missing -= (size_t)ch->body_left;
		if (--l->contents == 0)
			protocol_received(&l->base);
	}
	ch->content = AMQP_NO_CONTENT;
	msg_unref(ch->msg);
	ch->msg = NULL;
}

/* As a channel that was never open, but for what it owes. */
static void reset(struct amqp_channel *ch)
{
	drop_content(ch);
	while (ch->tags)
		amqp_basic_forget_tag(ch,
				      (struct slice){ ch->tags->text, ch->tags->len });
	if (ch->acked_count > 0)
		TAILQ_REMOVE(&ch->l->acking, ch, acking_link);
	mem_free(ch->last_queue);
	mem_free(ch->reply_queue);
	ch->last_queue = ch->reply_queue = NULL;
	ch->is_open = ch->is_confirm = ch->is_tx = false;
	ch->published = ch->acked_count = ch->last_tag = 0;
	ch->prefetch = AMQP_PREFETCH_MAX;
}

void amqp_channel_end(struct amqp_channel *ch)
{
	const struct amqp_owed owed = { .kind = AMQP_OWED_NOTHING };
	struct channel *session = session_channel(ch->l->base.session, ch->number);

	if (ch->is_ending)
		TAILQ_REMOVE(&ch->l->ending, ch, ending_link);
	ch->is_ending = false;
	reset(ch);
	for (size_t i = 0; i < ch->owed_count; i++)
		ch->owed[(ch->owed_first + i) & (ch->owed_cap - 1)].kind =
			AMQP_OWED_NOTHING;
	if (session)
		session_close_channel(session, amqp_owe(ch, &owed));
}

static void free_channel(struct amqp_channel *ch)
{
	reset(ch);
	for (size_t i = 0; i < ch->owed_count; i++) {
		struct amqp_owed *o =
			&ch->owed[(ch->owed_first + i) & (ch->owed_cap - 1)];

		msg_unref(o->msg);
		mem_free(o->text);
	}
	mem_free(ch->owed);
	buf_deinit(&ch->keys);
}

static void open_channel(struct amqp *l, unsigned number)
{
	const struct amqp_value none = { .s = SLICE("") };
	struct amqp_channel *ch;
	struct channel *session;
	struct error err;

	if (number > l->channel_max)
		amqp_fail(l, NULL, AMQP_CHANNEL_OPEN, AMQP_NOT_ALLOWED,
			  "channel %u: the numbers end at %u", number, l->channel_max);
	else if (session_open(l->base.session, number, &session, &err) < 0)
		amqp_fail(l, NULL, AMQP_CHANNEL_OPEN, AMQP_NOT_ALLOWED, "%s", err.text);
	else {
		ch = make_channel(l, number);
		reset(ch);
		ch->is_open = true;
		amqp_send(l, number, AMQP_CHANNEL_OPEN_OK, &none);
	}
}

static void close_channel(const struct amqp_request *q)
{
	q->channel->is_open = false;
	session_close_channel(q->session,
			      amqp_answer(q, false, (struct slice){ NULL, 0 }, 0));
}

static void flow(const struct amqp_request *q)
{
	if (!q->v[AMQP_CHANNEL_FLOW_ACTIVE].n)
		amqp_fail(q->l, q->channel, q->method, AMQP_NOT_IMPLEMENTED,
			  "channel.flow with active=false: use basic.qos");
	else
		amqp_send(q->l, q->channel->number, AMQP_CHANNEL_FLOW_OK,
			  (struct amqp_value[]){ { .n = 1 } });
}

/* ---- the connection ---------------------------------------------------------------- */

static void add_capabilities(struct buf *out)
{
	static const char *const names[] = {
		"publisher_confirms", "exchange_exchange_bindings",
		"basic.nack",         "consumer_cancel_notify",
		"connection.blocked", "consumer_priorities",
		"per_consumer_qos",   "authentication_failure_close",
		"direct_reply_to",
	};
	struct buf table = { 0 }, bytes = { 0 };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		amqp_field_add_number(&table, slice_from(names[i]), 't', 1);
	amqp_put_number(buf_reserve(&bytes, 4), buf_len(&table), 4);
	buf_grow(&bytes, 4);
	buf_append_slice(&bytes, buf_slice(&table));
	amqp_field_add(out, SLICE("capabilities"), 'F', buf_slice(&bytes));
	buf_deinit(&table);
	buf_deinit(&bytes);
}

static bool has_certificate(struct amqp *l)
{
	struct session_peer peer;

	protocol_facts(&l->base, &peer);
	return peer.certificate && peer.is_certificate_user;
}

static void send_start(struct amqp *l)
{
	struct buf properties = { 0 };

	add_capabilities(&properties);
	amqp_field_add_text(&properties, SLICE("product"), SLICE("tidemq"));
	amqp_field_add_text(&properties, SLICE("version"), SLICE(TIDE_VERSION));
	amqp_field_add_text(&properties, SLICE("platform"), SLICE("C"));
	amqp_field_add_text(&properties, SLICE("information"),
			    SLICE("docs/amqp.md says what differs from RabbitMQ"));
	amqp_send(l, 0, AMQP_CONNECTION_START,
		  (struct amqp_value[]){ { .n = 0 },
					 { .n = 9 },
					 { .s = buf_slice(&properties) },
					 { .s = has_certificate(l)
							? SLICE("EXTERNAL PLAIN AMQPLAIN")
							: SLICE("PLAIN AMQPLAIN") },
					 { .s = SLICE("en_US") } });
	buf_deinit(&properties);
	l->state = AMQP_START;
}

static void send_tune(struct amqp *l)
{
	unsigned most = session_facts(l->base.session).channels_max;

	l->channel_max = most < AMQP_CHANNELS_MAX ? most : AMQP_CHANNELS_MAX;
	l->state = AMQP_TUNE;
	amqp_send(l, 0, AMQP_CONNECTION_TUNE,
		  (struct amqp_value[]){ { .n = l->channel_max },
					 { .n = AMQP_FRAME_MAX },
					 { .n = AMQP_HEARTBEAT_S } });
}

static void on_logged_in(void *ctx, struct reply *r, const struct error *refusal)
{
	struct amqp *l = ctx;

	reply_ok(r);
	if (refusal)
		amqp_fail(l, NULL, AMQP_CONNECTION_START_OK, AMQP_ACCESS_REFUSED, "%s",
			  refusal->text);
	else
		send_tune(l);
}

static void read_client(struct amqp *l, struct slice properties)
{
	struct amqp_field f, g;
	char room[AMQP_TEXT_MAX];
	struct slice name;

	if (amqp_field_find(properties, "connection_name", &f) &&
	    amqp_field_text(&f, room, &name) && slice_is_name(name))
		session_set_name(l->base.session, name);
	if (!amqp_field_find(properties, "capabilities", &f) || f.type != 'F')
		return;
	l->is_told_blocked =
		amqp_field_find(slice_skip(f.bytes, 4), "connection.blocked", &g) &&
		amqp_field_is_true(&g);
	l->is_told_cancelled =
		amqp_field_find(slice_skip(f.bytes, 4), "consumer_cancel_notify", &g) &&
		amqp_field_is_true(&g);
}

/* "<who it acts for> NUL <user> NUL <password>" */
static bool read_plain(struct slice response, struct session_login *login)
{
	size_t at = slice_find(response, '\0');

	if (at == response.len)
		return false;
	response = slice_skip(response, at + 1);
	at = slice_find(response, '\0');
	if (at == response.len)
		return false;
	login->user = (struct slice){ response.data, at };
	login->password = slice_skip(response, at + 1);
	return true;
}

/* A table without its length. */
static bool read_amqplain(struct slice response, struct session_login *login)
{
	struct amqp_field f;
	char room[AMQP_TEXT_MAX];

	return amqp_field_is_table(response) && amqp_field_find(response, "LOGIN", &f) &&
	       amqp_field_text(&f, room, &login->user) && f.type == 'S' &&
	       amqp_field_find(response, "PASSWORD", &f) && f.type == 'S' &&
	       amqp_field_text(&f, room, &login->password);
}

static bool read_login(struct amqp *l, const struct amqp_value *v,
		       struct session_login *login)
{
	struct slice mechanism = v[AMQP_CONNECTION_START_OK_MECHANISM].s,
		     response = v[AMQP_CONNECTION_START_OK_RESPONSE].s;

	if (slice_is(mechanism, "PLAIN"))
		return read_plain(response, login);
	if (slice_is(mechanism, "AMQPLAIN"))
		return read_amqplain(response, login);
	return slice_is(mechanism, "EXTERNAL") && has_certificate(l);
}

static void log_in(struct amqp *l, const struct amqp_value *v)
{
	const struct amqp_owed owed = { .kind = AMQP_OWED_NOTHING };
	struct session_login login = {
		.is_user_alone = true,
		.on_done = on_logged_in,
		.ctx = l,
	};
	struct reply *r;
	struct error err;

	read_client(l, v[AMQP_CONNECTION_START_OK_CLIENT_PROPERTIES].s);
	if (!read_login(l, v, &login)) {
		amqp_fail(
			l, NULL, AMQP_CONNECTION_START_OK, AMQP_ACCESS_REFUSED,
			"login with mechanism %.*s refused: expected PLAIN, AMQPLAIN, or "
			"EXTERNAL with a certificate",
			SLICE_HEAD(v[AMQP_CONNECTION_START_OK_MECHANISM].s, 32));
		return;
	}
	if (login.user.data)
		l->user = mem_strndup(login.user.data, login.user.len);
	if (login.password.len == 0)
		login.password.data = NULL;
	l->state = AMQP_LOGIN;
	r = amqp_owe(&l->zero, &owed);
	if (session_login_start(l->base.session, &login, r, &err) < 0) {
		reply_ok(r);
		amqp_fail(l, NULL, AMQP_CONNECTION_START_OK, AMQP_ACCESS_REFUSED, "%s",
			  err.text);
	}
}

static void tune(struct amqp *l, const struct amqp_value *v)
{
	uint64_t channels = v[AMQP_CONNECTION_TUNE_OK_CHANNEL_MAX].n,
		 frame = v[AMQP_CONNECTION_TUNE_OK_FRAME_MAX].n;
	int64_t beat_ms = (int64_t)v[AMQP_CONNECTION_TUNE_OK_HEARTBEAT].n * 1000;

	if (channels > l->channel_max || frame > AMQP_FRAME_MAX ||
	    (frame && frame < AMQP_FRAME_MIN)) {
		amqp_fail(l, NULL, AMQP_CONNECTION_TUNE_OK, AMQP_NOT_ALLOWED,
			  "negotiated channel_max is %u at most, and frame_max from %d "
			  "to %d",
			  l->channel_max, AMQP_FRAME_MIN, AMQP_FRAME_MAX);
		return;
	}
	l->channel_max = channels ? (unsigned)channels : l->channel_max;
	l->frame_max = frame ? (uint32_t)frame : AMQP_FRAME_MAX;
	l->base.heartbeat_in_ms = beat_ms;
	l->base.heartbeat_out_ms = beat_ms / 2;
	l->state = AMQP_OPEN;
}

static void open_connection(struct amqp *l, const struct amqp_value *v)
{
	const struct amqp_value none = { .s = SLICE("") };
	struct slice vhost = v[AMQP_CONNECTION_OPEN_VIRTUAL_HOST].s;
	struct error err;

	if (vhost.len == 0) /* amqp://host/ */
		vhost = SLICE("/");
	if (session_check_vhost(vhost, &err) == TIDE_OK &&
	    session_login_enter(l->base.session, vhost, &err) == TIDE_OK) {
		l->state = AMQP_READY;
		amqp_send(l, 0, AMQP_CONNECTION_OPEN_OK, &none);
		return;
	}
	amqp_fail(l, NULL, AMQP_CONNECTION_OPEN, AMQP_NOT_ALLOWED, "%s", err.text);
}

static void close_connection(struct amqp *l)
{
	session_leave(l->base.session);
	l->is_leaving = true;
	amqp_leave(l);
}

static void connection_request(struct amqp *l, enum amqp_method method,
			       const struct amqp_value *v)
{
	bool is_expected = true;

	if (method == AMQP_CONNECTION_CLOSE)
		close_connection(l);
	else if (method == AMQP_CONNECTION_START_OK && l->state == AMQP_START)
		log_in(l, v);
	else if (method == AMQP_CONNECTION_TUNE_OK && l->state == AMQP_TUNE)
		tune(l, v);
	else if (method == AMQP_CONNECTION_OPEN && l->state == AMQP_OPEN)
		open_connection(l, v);
	else if (method == AMQP_CONNECTION_UPDATE_SECRET && l->state == AMQP_READY)
		/* A login has no end: as with RabbitMQ's own users there is nothing to
		 * renew, and nobody reads the secret. */
		amqp_send(l, 0, AMQP_CONNECTION_UPDATE_SECRET_OK, NULL);
	else
		is_expected = false;
	if (!is_expected)
		amqp_fail(l, NULL, method, AMQP_COMMAND_INVALID,
			  "%s is not expected here", amqp_codec_method(method)->name);
}

/* ---- methods ----------------------------------------------------------------------- */

/* Of a channel that is being closed nothing is read but its end. */
static void closing_request(struct amqp_channel *ch, enum amqp_method method)
{
	if (method != AMQP_CHANNEL_CLOSE && method != AMQP_CHANNEL_CLOSE_OK)
		return;
	if (ch->is_ending)
		amqp_channel_end(ch);
	ch->is_closing = false;
	if (method == AMQP_CHANNEL_CLOSE)
		amqp_send(ch->l, ch->number, AMQP_CHANNEL_CLOSE_OK, NULL);
}

static void channel_request(const struct amqp_request *q)
{
	switch (amqp_codec_method(q->method)->class_id) {
	case 20:
		if (q->method == AMQP_CHANNEL_CLOSE)
			close_channel(q);
		else if (q->method == AMQP_CHANNEL_FLOW)
			flow(q);
		else if (q->method != AMQP_CHANNEL_FLOW_OK)
			amqp_fail(q->l, NULL, q->method, AMQP_COMMAND_INVALID,
				  "%s is not expected here",
				  amqp_codec_method(q->method)->name);
		break;
	case 40:
		amqp_exchange_request(q);
		break;
	case 50:
		amqp_queue_request(q);
		break;
	case AMQP_CLASS_BASIC:
		amqp_basic_request(q);
		break;
	default:
		amqp_tx_request(q);
	}
}

static void run_method(struct amqp *l, enum amqp_method method,
		       const struct amqp_value *v)
{
	struct amqp_channel *ch = find_channel(l, l->channel);
	unsigned class_id = amqp_codec_method(method)->class_id;

	if ((class_id == 10) != (l->channel == 0))
		amqp_fail(l, NULL, method, AMQP_COMMAND_INVALID,
			  "%s on channel %u: connection methods are for channel 0, and "
			  "no others are",
			  amqp_codec_method(method)->name, l->channel);
	else if (class_id == 10)
		connection_request(l, method, v);
	else if (l->state != AMQP_READY)
		amqp_fail(l, NULL, method, AMQP_COMMAND_INVALID,
			  "%s before connection.open", amqp_codec_method(method)->name);
	else if (ch && ch->is_closing)
		closing_request(ch, method);
	else if (!ch && method == AMQP_CHANNEL_CLOSE_OK)
		return; /* both sides have closed it at once */
	else if ((method == AMQP_CHANNEL_OPEN) == (ch != NULL))
		amqp_fail(l, NULL, method, AMQP_CHANNEL_ERROR, "channel %u is %s",
			  l->channel, ch ? "open already" : "not open");
	else if (!ch)
		open_channel(l, l->channel);
	else if (ch->content != AMQP_NO_CONTENT)
		amqp_fail(l, NULL, method, AMQP_UNEXPECTED_FRAME,
			  "%s, and the content of basic.publish was expected",
			  amqp_codec_method(method)->name);
	else
		channel_request(&(struct amqp_request){
			l, ch, session_channel(l->base.session, l->channel), method, v });
}

static void read_method(struct amqp *l, struct slice bytes)
{
	struct amqp_value values[AMQP_FIELDS_MAX];
	enum amqp_method method;

	if (bytes.len < 4) {
		amqp_fail(l, NULL, AMQP_METHOD_COUNT, AMQP_FRAME_ERROR,
			  "a method has a class and a number");
		return;
	}
	method = amqp_codec_find_method((unsigned)amqp_get_number(bytes.data, 2),
					(unsigned)amqp_get_number(bytes.data + 2, 2));
	if (method == AMQP_METHOD_COUNT)
		amqp_fail(l, NULL, method, AMQP_NOT_IMPLEMENTED,
			  "there is no method %u of class %u",
			  (unsigned)amqp_get_number(bytes.data + 2, 2),
			  (unsigned)amqp_get_number(bytes.data, 2));
	else if (!amqp_codec_read(amqp_codec_method(method)->fields, slice_skip(bytes, 4),
				  values))
		amqp_fail(l, NULL, method, AMQP_SYNTAX_ERROR,
			  "the fields of %s cannot be read",
			  amqp_codec_method(method)->name);
	else
		run_method(l, method, values);
	l->is_heavy |= method == AMQP_QUEUE_DECLARE || method == AMQP_BASIC_CONSUME;
}

/* ---- content ----------------------------------------------------------------------- */

static void refuse_frame(struct amqp *l, const char *why)
{
	amqp_fail(l, NULL, AMQP_METHOD_COUNT, AMQP_UNEXPECTED_FRAME,
		  "a frame of type %d on channel %u: %s", l->type, l->channel, why);
}

static void read_header(struct amqp *l, struct slice bytes)
{
	struct amqp_channel *ch = find_channel(l, l->channel);

	if (ch && ch->is_closing)
		return;
	if (!ch || ch->content != AMQP_CONTENT_HEADER) {
		refuse_frame(l, "no content header is expected");
		return;
	}
	if (bytes.len < 14 || amqp_get_number(bytes.data, 2) != AMQP_CLASS_BASIC) {
		amqp_fail(l, NULL, AMQP_BASIC_PUBLISH, AMQP_FRAME_ERROR,
			  "that is no header of a message");
		return;
	}
	amqp_basic_header(
		&(struct amqp_request){ l, ch,
					session_channel(l->base.session, l->channel),
					AMQP_BASIC_PUBLISH, NULL },
		amqp_get_number(bytes.data + 4, 8), slice_skip(bytes, 12));
}

/* A body frame begins. False: it may not. */
static bool begin_body(struct amqp *l)
{
	struct amqp_channel *ch = find_channel(l, l->channel);

	if (ch && ch->is_closing)
		return true;
	if (!ch || ch->content != AMQP_CONTENT_BODY) {
		refuse_frame(l, "no body is expected");
		return false;
	}
	if (l->frame_left <= ch->body_left)
		return true;
	amqp_fail(l, NULL, AMQP_BASIC_PUBLISH, AMQP_FRAME_ERROR,
		  "the body is longer than its header says");
	return false;
}

/* Gives how many bytes were taken. */
static size_t feed_body(struct amqp *l, const char *data, size_t len)
{
	struct amqp_channel *ch = find_channel(l, l->channel);
	size_t n = len < l->frame_left ? len : l->frame_left;

	l->frame_left -= (uint32_t)n;
	if (!ch || ch->is_closing)
		return n;
	if (ch->msg)
		memcpy(msg_payload_room(ch->msg) + ch->msg->payload_len - ch->body_left,
		       data, n);
	ch->body_left -= n;
	l->missing -= n;
	if (n > 0)
		protocol_receive(&l->base, ch->msg ? n : 0, l->missing);
	return n;
}

static void end_body(struct amqp *l)
{
	struct amqp_channel *ch = find_channel(l, l->channel);

	if (ch && ch->content == AMQP_CONTENT_BODY && !ch->is_closing &&
	    ch->body_left == 0)
		amqp_basic_publish(ch);
}

/* ---- frames ------------------------------------------------------------------------ */

static void run_frame(struct amqp *l, struct slice bytes)
{
	if (bytes.data[bytes.len] != (char)AMQP_FRAME_END)
		amqp_fail(l, NULL, AMQP_METHOD_COUNT, AMQP_FRAME_ERROR,
			  "a frame does not end with 0xCE");
	else if (l->type == AMQP_FRAME_METHOD)
		read_method(l, bytes);
	else if (l->type == AMQP_FRAME_HEADER)
		read_header(l, bytes);
	else if (l->channel != 0 || bytes.len > 0)
		refuse_frame(l, "a heartbeat is empty, and on channel 0");
}

/* A long frame comes in pieces. */
static size_t feed_partial(struct amqp *l, const char *data, size_t len)
{
	size_t n = len < l->frame_left ? len : l->frame_left;
	struct slice whole;

	buf_append(&l->partial, data, n);
	l->frame_left -= (uint32_t)n;
	protocol_receive(&l->base, n, l->frame_left);
	if (l->frame_left > 0)
		return n;
	if (l->contents == 0)
		protocol_received(&l->base);
	whole = buf_slice(&l->partial);
	run_frame(l, (struct slice){ whole.data, whole.len - 1 });
	buf_deinit(&l->partial);
	return n;
}

/* Gives 0 if the head has not come, or is none. */
static size_t read_frame_head(struct amqp *l, const char *data, size_t len)
{
	if (len < AMQP_FRAME_HEAD)
		return 0;
	l->type = (enum amqp_frame)data[0];
	l->channel = (unsigned)amqp_get_number(data + 1, 2);
	l->frame_left = (uint32_t)amqp_get_number(data + 3, 4);
	if (l->type != AMQP_FRAME_METHOD && l->type != AMQP_FRAME_HEADER &&
	    l->type != AMQP_FRAME_BODY && l->type != AMQP_FRAME_HEARTBEAT)
		amqp_fail(l, NULL, AMQP_METHOD_COUNT, AMQP_FRAME_ERROR,
			  "there is no frame of type %u", (uint8_t)data[0]);
	else if (l->frame_left > l->frame_max - AMQP_FRAME_HEAD - 1)
		amqp_fail(l, NULL, AMQP_METHOD_COUNT, AMQP_FRAME_ERROR,
			  "a frame of %u bytes: frame_max is %u", l->frame_left,
			  l->frame_max);
	return l->state == AMQP_CLOSED ? 0 : AMQP_FRAME_HEAD;
}

/* The client's first publish finds publishers held back. */
static bool must_wait(struct amqp *l, const char *method)
{
	if (l->type != AMQP_FRAME_METHOD ||
	    amqp_get_number(method, 4) != (AMQP_CLASS_BASIC << 16 | 40) ||
	    !session_publish_is_next_held(l->base.session))
		return false;
	session_publish_begin(l->base.session);
	return true;
}

static size_t feed_frame(struct amqp *l, const char *data, size_t len)
{
	size_t head = read_frame_head(l, data, len), size = l->frame_left;

	l->frame_left = 0;
	if (head == 0)
		return 0;
	if (l->type == AMQP_FRAME_BODY) {
		l->frame_left = (uint32_t)size;
		l->is_body = begin_body(l);
		return l->is_body ? head : 0;
	}
	if (head + size + 1 > PROTOCOL_UNREAD_MAX / 2) {
		l->frame_left = (uint32_t)size + 1;
		return head;
	}
	if (len - head < size + 1 || (size >= 4 && must_wait(l, data + head)))
		return 0;
	run_frame(l, (struct slice){ data + head, size });
	return head + size + 1;
}

static size_t feed_body_frame(struct amqp *l, const char *data, size_t len)
{
	size_t n = feed_body(l, data, len);

	if (n == len)
		return n;
	if (data[n] != (char)AMQP_FRAME_END) {
		amqp_fail(l, NULL, AMQP_METHOD_COUNT, AMQP_FRAME_ERROR,
			  "a frame does not end with 0xCE");
		return 0;
	}
	l->is_body = false;
	end_body(l);
	return n + 1;
}

static size_t feed_preamble(struct amqp *l, const char *data, size_t len)
{
	if (len < sizeof(preamble))
		return 0;
	if (memcmp(data, preamble, sizeof(preamble)) == 0) {
		send_start(l);
		return sizeof(preamble);
	}
	out_append(l->base.out, preamble, sizeof(preamble));
	amqp_fail(l, NULL, AMQP_METHOD_COUNT, AMQP_FRAME_ERROR, "another protocol");
	return 0;
}

static size_t feed_some(struct amqp *l, const char *data, size_t len)
{
	if (l->state == AMQP_PROTOCOL)
		return feed_preamble(l, data, len);
	if (l->is_body)
		return feed_body_frame(l, data, len);
	return l->frame_left ? feed_partial(l, data, len) : feed_frame(l, data, len);
}

static size_t feed(struct protocol *p, char *data, size_t len)
{
	struct amqp *l = container_of(p, struct amqp, base);
	size_t at = 0, n;

	p->is_paused = false;
	l->is_heavy = false;
	session_begin(p->session);
	while (at < len && l->state != AMQP_CLOSED && !l->is_leaving) {
		bool is_between = !l->is_body && l->frame_left == 0;

		if (is_between && at > 0 && session_is_spent(p->session, l->is_heavy)) {
			p->is_paused = true;
			break;
		}
		if (is_between && protocol_is_held(p))
			break;
		n = feed_some(l, data + at, len - at);
		if (n == 0)
			break;
		at += n;
	}
	return l->state == AMQP_CLOSED || l->is_leaving ? len : at;
}

/* ---- the protocol ------------------------------------------------------------------ */

static void init(struct protocol *p, const struct protocol_spec *spec)
{
	struct amqp *l = container_of(p, struct amqp, base);

	*l = (struct amqp){ .frame_max = AMQP_FRAME_MAX };
	l->zero.l = l;
	TAILQ_INIT(&l->acking);
	TAILQ_INIT(&l->ending);
	protocol_init(p, &amqp_protocol, &amqp_reply_ops, spec);
	session_allowance_throttle(p->session);
}

static void deinit(struct protocol *p)
{
	struct amqp *l = container_of(p, struct amqp, base);

	l->state = AMQP_CLOSED;
	p->is_silent = true;
	protocol_deinit(p);
	for (unsigned i = 0; i < l->channel_cap; i++)
		if (l->channels[i]) {
			free_channel(l->channels[i]);
			mem_free(l->channels[i]);
		}
	free_channel(&l->zero);
	mem_free(l->channels);
	mem_free(l->user);
	mem_free(l->leaving);
	buf_deinit(&l->partial);
	buf_deinit(&l->properties);
	buf_deinit(&l->table);
}

static void tell_closed(struct protocol *p, const char *words)
{
	struct amqp *l = container_of(p, struct amqp, base);
	const char *space = strchr(words, ' ');

	if (l->is_leaving || l->state == AMQP_CLOSED)
		return;
	l->is_leaving = l->has_error = true;
	l->leaving = mem_strdup(space ? space + 1 : words);
	amqp_leave(l);
	p->ops->wake(p->ctx);
}

static void heartbeat(struct protocol *p)
{
	static const char frame[] = { AMQP_FRAME_HEARTBEAT, 0, 0, 0, 0, 0, 0,
				      (char)AMQP_FRAME_END };

	out_append(p->out, frame, sizeof(frame));
	p->ops->wake(p->ctx);
}

int amqp_claim(const char *data, size_t len)
{
	size_t n = len < 4 ? len : 4;

	if (memcmp(data, preamble, n) != 0)
		return 0;
	return n == 4 ? 1 : TIDE_AGAIN;
}

const struct protocol_kind amqp_protocol = {
	.name = "amqp",
	.size = sizeof(struct amqp),
	.init = init,
	.deinit = deinit,
	.feed = feed,
	.tell_closed = tell_closed,
	.heartbeat = heartbeat,
	.flush = amqp_flush,
};
