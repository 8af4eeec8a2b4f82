#include "stomp.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/container.h"
#include "base/duration.h"
#include "base/id.h"
#include "base/mem.h"

static int stomp_transaction_find(struct stomp *l, struct stomp_frame *f,
				  struct session_transaction **out);
static void stomp_transaction_keep(struct stomp *l, const struct stomp_frame *f);

/* SEND: from its head to the publish. */

#define REPLY_TO_MAX (2 * 255 + 64)

/* With the options that the frame has, as a SUBSCRIBE declares it. */
static int ensure_queue(struct stomp *l, struct stomp_frame *f)
{
	struct stomp_options options;

	if (stomp_destination_read_options(&options, f) == TIDE_OK) {
		stomp_destination_ensure_queue(l, stomp_channel_zero(l), f, l->last.key,
					       &options);
		args_deinit(&options.args);
	}
	return f->rc;
}

/* Make the destination, if it may be made. */
static int ensure(struct stomp *l, struct stomp_frame *f)
{
	const struct stomp_destination *d = &l->last;

	if (d->place == STOMP_QUEUE)
		return ensure_queue(l, f);
	if (d->place == STOMP_TEMP_QUEUE)
		return f->rc = error_set(
			       f->err, TIDE_EDENIED,
			       "/temp-queue/ is for the header reply-to and for "
			       "SUBSCRIBE; messages are sent to what reply-to "
			       "says when they arrive, /reply-queue/<queue>");
	return TIDE_OK;
}

/* The destination, in l->last. Most have that of the one before. */
static int find_destination(struct stomp *l, struct stomp_frame *f)
{
	struct slice text = stomp_frame_need(f, STOMP_H_DESTINATION);
	uint64_t version = session_route_version(l->base.session);
	bool is_last;

	if (f->rc < 0)
		return f->rc;
	is_last = slice_is_equal(text, buf_slice(&l->last_text));
	if (is_last && l->last_version == version)
		return TIDE_OK;
	buf_clear(&l->last_text);
	if (!l->last_room)
		l->last_room = mem_alloc(STOMP_DESTINATION_MAX);
	if (stomp_destination_read(f, text, l->last_room, &l->last) < 0 ||
	    ensure(l, f) < 0)
		return f->rc;
	buf_append_slice(&l->last_text, text);
	l->last_version = session_route_version(l->base.session);
	return TIDE_OK;
}

static int check_header(struct stomp_frame *f, struct slice name)
{
	if (slice_is_name(name) && !memchr(name.data, '=', name.len))
		return TIDE_OK;
	return f->rc = error_set(f->err, TIDE_ESYNTAX,
				 "the header '%.*s' cannot be stored: its name must be "
				 "1-255 bytes of UTF-8 without white space, control "
				 "characters and '='",
				 SLICE_HEAD(name, 64));
}

/* A client that copies the headers of a MESSAGE has some that say nothing of the new
 * one. */
static bool is_of_delivery(struct slice name)
{
	static const char *const names[] = { "ack",       "subscription", "redelivered",
					     "x-attempt", "x-partition",  "x-offset" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_is(name, names[i]))
			return true;
	return slice_has_prefix(name, "x-death-");
}

/* Drop the headers that are not the message's. */
static void drop_headers(const struct stomp *l, struct stomp_frame *f)
{
	bool has_options = l->last.place == STOMP_QUEUE;
	unsigned count = 0;

	for (unsigned i = 0; i < f->count; i++)
		if (!is_of_delivery(f->others[i].name) &&
		    !(has_options && stomp_destination_is_option(f->others[i].name)))
			f->others[count++] = f->others[i];
	f->count = count;
}

/* @param room  for a reply-to that is rewritten */
static int read_headers(struct stomp *l, struct stomp_frame *f, char room[REPLY_TO_MAX])
{
	struct slice reply_to = stomp_frame_header(f, STOMP_H_REPLY_TO), queue;

	drop_headers(l, f);
	for (unsigned i = 0; i < f->count; i++)
		if (check_header(f, f->others[i].name) < 0)
			return f->rc;
	if (!reply_to.data)
		return TIDE_OK;
	if (f->count == MSG_HEADERS_MAX)
		return f->rc = error_set(f->err, TIDE_ETOOLONG,
					 "a message has at most %d headers",
					 MSG_HEADERS_MAX);
	if (slice_has_prefix(reply_to, "/temp-queue/")) {
		if (stomp_subscribe_temp(l, f, reply_to, &queue) < 0)
			return f->rc;
		reply_to.len = (size_t)snprintf(
			room, REPLY_TO_MAX, "/reply-queue/%" SLICE_FMT, SLICE_ARG(queue));
		reply_to.data = room;
	}
	f->others[f->count++] = (struct msg_header){ SLICE("reply-to"), reply_to };
	return TIDE_OK;
}

static void read_options(struct stomp_frame *f, struct publish_spec *spec)
{
	static const struct number_limits priority = { 0, MSG_PRIORITY_MAX },
					  delay = { 0, DURATION_MAX_MS },
					  ttl = { 1, DURATION_MAX_MS },
					  lease = { MSG_ACK_TIMEOUT_MIN_MS,
						    MSG_ACK_TIMEOUT_MAX_MS };

	spec->priority = (uint8_t)stomp_frame_uint(f, STOMP_H_PRIORITY, priority, 0);
	spec->delay_ms = stomp_frame_duration(f, STOMP_H_DELAY, delay);
	spec->ttl_ms = stomp_frame_duration(f, STOMP_H_EXPIRATION, ttl);
	spec->ack_timeout_ms =
		(uint32_t)stomp_frame_duration(f, STOMP_H_ACK_TIMEOUT, lease);
	/* It stays a header of the message. */
	for (unsigned i = 0; i < f->count; i++)
		spec->is_transient |= slice_is(f->others[i].name, "persistent") &&
				      slice_is(f->others[i].value, "false");
	spec->dedupe_id = stomp_frame_header(f, STOMP_H_PUBLISH_ID);
	if (spec->dedupe_id.data &&
	    (spec->dedupe_id.len == 0 || spec->dedupe_id.len > MSG_DEDUPE_ID_MAX))
		stomp_frame_refuse(f, STOMP_H_PUBLISH_ID, "1-%d bytes",
				   MSG_DEDUPE_ID_MAX);
}

/* The message is made, and its body is to be filled in: base.msg. */
static int stomp_send(struct stomp *l, struct stomp_frame *f, size_t body_len)
{
	struct publish_spec spec = { .payload_len = body_len };
	char reply_to[REPLY_TO_MAX];
	struct stomp_owed owed = { .verb = STOMP_SEND };
	bool is_queue;

	if (stomp_frame_header(f, STOMP_H_MESSAGE_ID).data) {
		f->rc = error_set(
			f->err, TIDE_ESYNTAX,
			"SEND has no header 'message-id': the broker gives each "
			"message its id; publish-id is for one of your own");
		return stomp_frame_explain(f, "Invalid header",
					   "'message-id' is not allowed on 'SEND'.\n");
	}
	if (find_destination(l, f) < 0 || read_headers(l, f, reply_to) < 0)
		return f->rc;
	read_options(f, &spec);
	is_queue = l->last.place == STOMP_QUEUE || l->last.place == STOMP_AMQ_QUEUE;
	l->demand = (struct publish_demand){ .must = stomp_frame_flag(f, STOMP_H_MUST,
								      is_queue) };
	if (f->rc < 0 || stomp_transaction_find(l, f, &l->demand.transaction) < 0)
		return f->rc;
	spec.exchange = l->last.exchange;
	spec.key = l->last.key;
	spec.headers = f->others;
	spec.header_count = f->count;
	f->rc = session_publish_prepare(l->base.session, &spec, &l->base.msg, f->err);
	if (f->rc < 0)
		return f->rc;
	l->base.filled = 0;
	l->state = STOMP_BODY;
	owed.receipt = stomp_frame_header(f, STOMP_H_RECEIPT);
	owed.is_kept = l->demand.transaction != NULL;
	if (owed.is_kept)
		stomp_transaction_keep(l, f);
	stomp_channel_owe(stomp_channel_zero(l), &owed);
	return TIDE_OK;
}

static void stomp_send_publish(struct stomp *l)
{
	struct channel *ch = stomp_channel_session(l, stomp_channel_zero(l));
	struct msg *m = l->base.msg;

	protocol_received(&l->base);
	l->base.msg = NULL;
	l->state = STOMP_FRAME;
	session_publish_take(l->base.session, m, &l->demand, reply_create(ch, false));
}

/* Then the bytes of the three, in this order. */
struct owed_head {
	uint8_t verb;
	bool is_part, is_kept;
	const char *word;
	uint32_t receipt_len, kept_len, sentence_len;
};

static void add_channel(struct stomp *l, unsigned number)
{
	if (number >= l->channel_cap) {
		unsigned cap = l->channel_cap ? 2 * l->channel_cap : 4;

		l->channels =
			mem_realloc(l->channels, cap * sizeof(struct stomp_channel *));
		memset(l->channels + l->channel_cap, 0,
		       (cap - l->channel_cap) * sizeof(struct stomp_channel *));
		l->channel_cap = cap;
	}
	l->channels[number] = mem_zalloc(sizeof(struct stomp_channel));
	l->channels[number]->number = number;
}

static void drop_channel(struct stomp *l, struct stomp_channel *ch)
{
	l->channels[ch->number] = NULL;
	buf_deinit(&ch->owed);
	buf_deinit(&ch->subscription);
	buf_deinit(&ch->origin);
	mem_free((char *)ch->id.data);
	mem_free((char *)ch->destination.data);
	mem_free(ch->queue);
	mem_free(ch);
}

static void free_channels(struct stomp *l)
{
	for (unsigned i = 0; i < l->channel_cap; i++)
		if (l->channels[i])
			drop_channel(l, l->channels[i]);
	mem_free(l->channels);
	l->channels = NULL;
	l->channel_cap = 0;
}

/* Release channels of subscriptions that have ended, and whose messages are settled
 * by now. */
static void release_ended(struct stomp *l, const struct stomp_frame *f)
{
	for (unsigned i = 1; i < l->channel_cap; i++)
		if (l->channels[i] && l->channels[i]->is_ended)
			stomp_channel_release(l, l->channels[i], f);
}

int stomp_channel_open(struct stomp *l, struct stomp_frame *f, struct stomp_channel **out)
{
	unsigned number = 1;
	struct stomp_channel *opened;
	struct channel *ch;

	release_ended(l, f);
	while (number < l->channel_cap && l->channels[number])
		number++;
	f->rc = session_open(l->base.session, number, &ch, f->err);
	if (f->rc < 0)
		return f->rc;
	add_channel(l, number);
	opened = l->channels[number];
	opened->serial = ++l->last_serial;
	buf_printf(&opened->origin, "-%" PRIu64 "-%" PRIu64 "-",
		   session_facts(l->base.session).number, opened->serial);
	*out = opened;
	return TIDE_OK;
}

struct stomp_channel *stomp_channel_find(struct stomp *l, struct slice id)
{
	for (unsigned i = 1; i < l->channel_cap; i++)
		if (l->channels[i] && !l->channels[i]->is_ended &&
		    slice_is_equal(l->channels[i]->id, id))
			return l->channels[i];
	return NULL;
}

static struct stomp_channel *find_serial(struct stomp *l, uint64_t serial)
{
	for (unsigned i = 1; i < l->channel_cap; i++)
		if (l->channels[i] && !l->channels[i]->is_closing &&
		    l->channels[i]->serial == serial)
			return l->channels[i];
	return NULL;
}

void stomp_channel_release(struct stomp *l, struct stomp_channel *ch,
			   const struct stomp_frame *f)
{
	struct channel *of_session = stomp_channel_session(l, ch);

	if (ch->is_closing || session_held_any(of_session))
		return;
	ch->is_closing = true;
	session_close_channel(of_session, stomp_channel_reply(l, ch, f, true));
}

void stomp_channel_owe(struct stomp_channel *ch, const struct stomp_owed *owed)
{
	const struct owed_head head = {
		.verb = (uint8_t)owed->verb,
		.is_part = owed->is_part,
		.is_kept = owed->is_kept,
		.receipt_len = (uint32_t)owed->receipt.len,
		.kept_len = (uint32_t)owed->kept.len,
	};

	ch->last_owed_len = sizeof(head) + owed->receipt.len + owed->kept.len;
	buf_append(&ch->owed, &head, sizeof(head));
	buf_append_slice(&ch->owed, owed->receipt);
	buf_append_slice(&ch->owed, owed->kept);
}

void stomp_channel_explain(struct stomp_channel *ch, const char *word,
			   struct slice sentence)
{
	char *at = ch->owed.data + ch->owed.end - ch->last_owed_len;
	struct owed_head head;

	memcpy(&head, at, sizeof(head));
	head.word = word;
	head.sentence_len = (uint32_t)sentence.len;
	memcpy(at, &head, sizeof(head));
	buf_append_slice(&ch->owed, sentence);
}

/* The next part of a record. */
static struct slice take_part(struct slice *rest, size_t len)
{
	struct slice part = { len ? rest->data : NULL, len };

	*rest = slice_skip(*rest, len);
	return part;
}

struct stomp_owed stomp_channel_pay(struct stomp_channel *ch)
{
	struct slice all = buf_slice(&ch->owed), rest;
	struct owed_head head;
	struct stomp_owed owed;

	memcpy(&head, all.data, sizeof(head));
	rest = slice_skip(all, sizeof(head));
	owed = (struct stomp_owed){
		.verb = (enum stomp_verb)head.verb,
		.is_part = head.is_part,
		.is_kept = head.is_kept,
		.word = head.word,
	};
	owed.receipt = take_part(&rest, head.receipt_len);
	owed.kept = take_part(&rest, head.kept_len);
	owed.sentence = take_part(&rest, head.sentence_len);
	/* The bytes stay until the next one is owed. */
	buf_consume(&ch->owed, all.len - rest.len);
	return owed;
}

struct reply *stomp_channel_reply(struct stomp *l, struct stomp_channel *ch,
				  const struct stomp_frame *f, bool is_part)
{
	const struct stomp_owed owed = {
		.verb = f->verb,
		.is_part = is_part,
		.receipt = stomp_frame_header(f, STOMP_H_RECEIPT),
	};

	stomp_channel_owe(ch, &owed);
	return reply_create(stomp_channel_session(l, ch), false);
}

int stomp_channel_fail(struct stomp_channel *ch, struct stomp_frame *f, struct reply *r)
{
	f->is_told = true;
	stomp_channel_explain(ch, f->word, f->sentence);
	reply_error(r, f->err);
	return f->rc;
}

void stomp_channel_settle(struct stomp *l, struct stomp_channel *ch)
{
	if (ch->is_closing && buf_len(&ch->owed) == 0)
		drop_channel(l, ch);
}

#define HEARTBEAT_MIN_MS 1000
#define HEARTBEAT_MAX_MS (3600 * 1000)

/* The highest that both know. Who names none speaks 1.0. */
static int choose_version(struct stomp *l, struct stomp_frame *f)
{
	struct slice list = stomp_frame_header(f, STOMP_H_ACCEPT_VERSION), rest = list;
	int chosen = list.data ? -1 : STOMP_1_0;

	while (rest.len > 0) {
		struct slice version = slice_cut(&rest, ',');

		while (version.len > 0 && version.data[0] == ' ')
			version = slice_skip(version, 1);
		for (int v = chosen + 1; v <= STOMP_1_2; v++)
			if (slice_is(version, stomp_frame_version((enum stomp_version)v)))
				chosen = v;
	}
	if (chosen < 0) {
		f->rc = error_set(f->err, TIDE_ESYNTAX,
				  "accept-version:%.*s: the broker speaks STOMP 1.0, 1.1 "
				  "and 1.2",
				  SLICE_HEAD(list, 64));
		return stomp_frame_explain(f, "Version mismatch",
					   "Supported versions are 1.0,1.1,1.2\n");
	}
	l->version = (uint8_t)chosen;
	return TIDE_OK;
}

static int64_t within(uint64_t ms)
{
	if (ms == 0)
		return 0;
	return ms < HEARTBEAT_MIN_MS ? HEARTBEAT_MIN_MS : (int64_t)ms;
}

/* "<how often it can be heard>,<how often it wants to hear>" */
static void read_heartbeat(struct stomp *l, struct stomp_frame *f)
{
	struct slice wanted = stomp_frame_header(f, STOMP_H_HEART_BEAT),
		     can = slice_cut(&wanted, ',');
	uint64_t can_ms, wants_ms;

	if (!can.data || l->version == STOMP_1_0)
		return;
	if (!slice_to_uint(can, HEARTBEAT_MAX_MS, &can_ms) ||
	    !slice_to_uint(wanted, HEARTBEAT_MAX_MS, &wants_ms)) {
		stomp_frame_refuse(f, STOMP_H_HEART_BEAT,
				   "two numbers of milliseconds, 0 to %d, as 10000,10000",
				   HEARTBEAT_MAX_MS);
		return;
	}
	l->base.heartbeat_in_ms = within(can_ms);
	l->base.heartbeat_out_ms = within(wants_ms);
}

/* Clients put the name of the host that they connect to here, because STOMP says so. A
 * vhost of such a name is found; else the default one is meant. */
bool stomp_host_is_address(struct slice host)
{
	return slice_is(host, "localhost") || memchr(host.data, '.', host.len) ||
	       memchr(host.data, ':', host.len);
}

/* data == NULL: the default one. */
static struct slice read_vhost(const struct stomp *l, struct stomp_frame *f)
{
	struct slice host = stomp_frame_header(f, STOMP_H_HOST);

	if (host.len == 0 ||
	    (stomp_host_is_address(host) && !session_has_vhost(l->base.session, host)))
		return (struct slice){ NULL, 0 };
	f->rc = session_check_vhost(host, f->err);
	if (f->rc < 0)
		stomp_frame_explain(f, "Bad CONNECT",
				    "Virtual host '%" SLICE_FMT "' access denied",
				    SLICE_ARG(host));
	return host;
}

/* An empty one is none. */
static struct slice read_credential(const struct stomp_frame *f, enum stomp_header header)
{
	struct slice value = stomp_frame_header(f, header);

	return value.len ? value : (struct slice){ NULL, 0 };
}

/* The login failed. Its reply is the last of channel 0: no frame is read meanwhile. */
static void explain_refusal(struct stomp *l, const struct error *refusal)
{
	bool is_stranger = refusal->code == TIDE_EDENIED && l->login &&
			   !session_is_shut_out(l->base.session);
	struct buf sentence = { 0 };

	if (is_stranger)
		buf_printf(&sentence, "Access refused for user '%s'\n", l->login);
	stomp_channel_explain(stomp_channel_zero(l), "Bad CONNECT", buf_slice(&sentence));
	buf_deinit(&sentence);
}

static void on_logged_in(void *ctx, struct reply *r, const struct error *refusal)
{
	struct stomp *l = ctx;

	if (refusal)
		explain_refusal(l, refusal);
	mem_free(l->login);
	l->login = NULL;
	if (refusal)
		reply_error(r, refusal);
	else
		reply_ok(r);
}

static void check_name(struct stomp_frame *f, enum stomp_header header)
{
	struct slice value = stomp_frame_header(f, header);

	if (value.len > 0 && !slice_is_name(value))
		stomp_frame_refuse(f, header,
				   "1-255 bytes of UTF-8 without white space and control "
				   "characters");
}

/* Log in, if the frame's headers are good so far. */
static int log_in(struct stomp *l, struct stomp_frame *f, struct slice vhost)
{
	const struct session_login login = {
		.user = read_credential(f, STOMP_H_LOGIN),
		.password = read_credential(f, STOMP_H_PASSCODE),
		.vhost = vhost,
		.on_done = on_logged_in,
		.ctx = l,
	};
	struct stomp_channel *zero = stomp_channel_zero(l);
	struct reply *r = stomp_channel_reply(l, zero, f, false);

	if (login.user.data)
		l->login = mem_strndup(login.user.data, login.user.len);
	f->rc = session_login_start(l->base.session, &login, r, f->err);
	if (f->rc == TIDE_OK)
		return TIDE_OK;
	if (f->rc == TIDE_EDENIED && !login.user.data && !login.password.data)
		error_set(f->err, f->rc,
			  "log in first: CONNECT needs the headers login and passcode");
	stomp_frame_explain(f, "Bad CONNECT", NULL);
	return stomp_channel_fail(zero, f, r);
}

static int stomp_connect(struct stomp *l, struct stomp_frame *f)
{
	struct slice client_id = stomp_frame_header(f, STOMP_H_CLIENT_ID), vhost;

	if (choose_version(l, f) < 0)
		return f->rc;
	read_heartbeat(l, f);
	check_name(f, STOMP_H_LOGIN);
	check_name(f, STOMP_H_CLIENT_ID);
	if (f->rc < 0)
		return f->rc;
	vhost = read_vhost(l, f);
	if (f->rc < 0)
		return f->rc;
	if (client_id.len > 0) {
		l->client_id = mem_strndup(client_id.data, client_id.len);
		session_set_name(l->base.session, client_id);
	}
	return log_in(l, f, vhost);
}

/* The receipt means that everything before the DISCONNECT is done. */
static int stomp_connect_end(struct stomp *l, struct stomp_frame *f)
{
	l->state = STOMP_CLOSED;
	l->is_leaving = true;
	session_leave(l->base.session);
	buf_append_slice(&l->leaving, stomp_frame_header(f, STOMP_H_RECEIPT));
	stomp_reply_leave(l);
	return TIDE_OK;
}

#define NAME_MAX_BYTES 255

typedef int transaction_fn(struct channel *ch, struct slice name, struct reply *r,
			   struct error *err);

/* ---- receipts that wait for a COMMIT ------------------------------------------------
 */

static struct stomp_kept *find_kept(const struct stomp *l, struct slice name)
{
	struct stomp_kept *k;

	HASH_FIND(hh, l->kept, name.data, name.len, k);
	return k;
}

static void stomp_transaction_keep(struct stomp *l, const struct stomp_frame *f)
{
	struct slice name = stomp_frame_header(f, STOMP_H_TRANSACTION),
		     receipt = stomp_frame_header(f, STOMP_H_RECEIPT);
	struct stomp_kept *k = find_kept(l, name);

	if (!receipt.data)
		return;
	if (!k) {
		k = mem_zalloc(sizeof(*k) + name.len);
		memcpy(k->name, name.data, name.len);
		HASH_ADD_KEYPTR(hh, l->kept, k->name, name.len, k);
	}
	buf_append_slice(&k->receipts, receipt);
	buf_append_char(&k->receipts, '\0');
}

/* Accepts NULL. */
static void forget_kept(struct stomp *l, struct stomp_kept *k)
{
	if (!k)
		return;
	HASH_DEL(l->kept, k);
	buf_deinit(&k->receipts);
	mem_free(k);
}

static void free_transactions(struct stomp *l)
{
	while (l->kept)
		forget_kept(l, l->kept);
}

/* ---- the frames ---------------------------------------------------------------------
 */

static int run_transaction(struct stomp *l, struct stomp_frame *f)
{
	transaction_fn *fn = f->verb == STOMP_BEGIN    ? session_transaction_begin
			     : f->verb == STOMP_COMMIT ? session_transaction_commit
						       : session_transaction_rollback;
	struct slice name = stomp_frame_need(f, STOMP_H_TRANSACTION);
	struct stomp_channel *zero = stomp_channel_zero(l);
	struct stomp_owed owed = { .verb = f->verb };
	struct stomp_kept *kept;
	struct reply *r;

	if (name.len > NAME_MAX_BYTES)
		stomp_frame_refuse(f, STOMP_H_TRANSACTION, "%d bytes at most",
				   NAME_MAX_BYTES);
	if (f->rc < 0)
		return f->rc;
	kept = find_kept(l, name);
	owed.receipt = stomp_frame_header(f, STOMP_H_RECEIPT);
	if (kept && f->verb == STOMP_COMMIT)
		owed.kept = buf_slice(&kept->receipts);
	stomp_channel_owe(zero, &owed);
	if (f->verb != STOMP_BEGIN)
		forget_kept(l, kept);
	r = reply_create(stomp_channel_session(l, zero), false);
	f->rc = fn(stomp_channel_session(l, zero), name, r, f->err);
	if (f->rc == TIDE_ENOTFOUND || f->rc == TIDE_EEXISTS)
		stomp_frame_explain(f, "Bad transaction", NULL);
	return f->rc < 0 ? stomp_channel_fail(zero, f, r) : TIDE_OK;
}

/* The one that a SEND, ACK or NACK names; NULL when it names none. Gives f->rc. */
static int stomp_transaction_find(struct stomp *l, struct stomp_frame *f,
				  struct session_transaction **out)
{
	struct slice name = stomp_frame_header(f, STOMP_H_TRANSACTION);

	*out = NULL;
	if (!name.data)
		return TIDE_OK;
	*out = session_transaction_find(l->base.session, name);
	if (*out)
		return TIDE_OK;
	f->rc = error_set(f->err, TIDE_ENOTFOUND,
			  "there is no transaction '%.*s': send BEGIN first",
			  SLICE_HEAD(name, 64));
	return stomp_frame_explain(f, "Bad transaction", NULL);
}

/* The parts of the id of a delivery. */
struct delivered {
	uint64_t id; /* of the message */
	uint64_t session, serial;
	uint64_t tag;
};

/* "<id of the message>-<session>-<serial of the subscription>-<tag>" */
static bool read_delivered(struct slice text, struct delivered *d)
{
	struct slice id = slice_cut(&text, '-'), session = slice_cut(&text, '-'),
		     serial = slice_cut(&text, '-');

	return id_parse(id, &d->id) == TIDE_OK &&
	       slice_to_uint(session, UINT64_MAX, &d->session) &&
	       slice_to_uint(serial, UINT64_MAX, &d->serial) &&
	       slice_to_uint(text, UINT64_MAX - 1, &d->tag);
}

/* The subscription that was given the message, or NULL. Numbers of sessions begin again
 * with the broker: what an earlier one gave out is told from the rest by its id. */
static struct stomp_channel *find_delivered(struct stomp *l, const struct delivered *d)
{
	struct stomp_channel *ch = NULL;

	if (d->session == session_facts(l->base.session).number)
		ch = find_serial(l, d->serial);
	if (!ch || ch->is_auto ||
	    session_held_was_given(stomp_channel_session(l, ch), d->tag, d->id))
		return ch;
	return NULL;
}

/* Find the message: 1.2 names it by the header "ack" of its MESSAGE, 1.0 and 1.1 by
 * its "message-id". */
static struct stomp_channel *find_message(struct stomp *l, struct stomp_frame *f,
					  uint64_t *tag)
{
	struct slice subscription = stomp_frame_header(f, STOMP_H_SUBSCRIPTION), text;
	struct stomp_channel *ch;
	struct delivered d;

	text = stomp_frame_header(f, STOMP_H_MESSAGE_ID);
	if (l->version == STOMP_1_2 || !text.data)
		text = stomp_frame_need(f, l->version == STOMP_1_2 ? STOMP_H_ID
								   : STOMP_H_MESSAGE_ID);
	if (f->rc < 0)
		return NULL;
	if (!read_delivered(text, &d)) {
		f->rc = error_set(f->err, TIDE_ENOTFOUND,
				  "no message with the id '%.*s' was given to a "
				  "subscription of this connection",
				  SLICE_HEAD(text, 64));
		stomp_frame_explain(f, "Invalid header", NULL);
		return NULL;
	}
	ch = find_delivered(l, &d);
	*tag = d.tag;
	if (!ch)
		f->rc = error_set(f->err, TIDE_ELEASE,
				  "the message '%.*s' is no longer held: it was settled "
				  "or timed out, or the connection was lost",
				  SLICE_HEAD(text, 64));
	else if (ch->is_auto)
		f->rc = error_set(f->err, TIDE_EDENIED,
				  "the subscription '%.*s' has ack:auto: its messages "
				  "need no %s",
				  SLICE_HEAD(ch->id, 64), stomp_frame_verb(f->verb));
	else if (subscription.data && !slice_is_equal(subscription, ch->id))
		f->rc = error_set(f->err, TIDE_ENOTFOUND,
				  "the message '%.*s' is not one of the subscription "
				  "'%.*s'",
				  SLICE_HEAD(text, 64), SLICE_HEAD(subscription, 64));
	return f->rc < 0 ? NULL : ch;
}

static void read_nack(struct stomp_frame *f, struct settle_spec *spec)
{
	static const struct number_limits delay = { 0, DURATION_MAX_MS };
	bool has_delay = stomp_frame_header(f, STOMP_H_DELAY).data != NULL,
	     has_requeue = stomp_frame_header(f, STOMP_H_REQUEUE).data != NULL,
	     is_requeue = stomp_frame_flag(f, STOMP_H_REQUEUE, true);

	spec->ms = stomp_frame_duration(f, STOMP_H_DELAY, delay);
	spec->reason = stomp_frame_header(f, STOMP_H_REASON);
	if (has_delay && !is_requeue && f->rc == TIDE_OK)
		f->rc = error_set(f->err, TIDE_ESYNTAX,
				  "NACK takes delay or requeue:false, not both");
	spec->how = !is_requeue   ? SETTLE_DEAD
		    : has_delay   ? SETTLE_AFTER
		    : has_requeue ? SETTLE_REQUEUE
				  : SETTLE_RETRY;
}

static int stomp_settle(struct stomp *l, struct stomp_frame *f)
{
	struct tag_range range;
	struct settle_spec spec = { .how = SETTLE_ACK, .ranges = &range, .count = 1 };
	struct stomp_channel *ch;
	struct reply *r;

	if (stomp_transaction_find(l, f, &spec.transaction) < 0)
		return f->rc;
	if (f->verb == STOMP_NACK)
		read_nack(f, &spec);
	ch = f->rc < 0 ? NULL : find_message(l, f, &range.last);
	if (!ch)
		return f->rc;
	range.first = ch->is_cumulative ? 1 : range.last;
	r = stomp_channel_reply(l, ch, f, false);
	f->rc = session_settle(stomp_channel_session(l, ch), &spec, r, f->err);
	if (f->rc == TIDE_ELEASE && !spec.transaction) {
		/* The message was settled before. Of another client's message, the
		 * reply is an error. */
		f->rc = TIDE_OK;
		reply_ok(r);
	}
	return f->rc < 0 ? stomp_channel_fail(ch, f, r) : TIDE_OK;
}

#define RECEIPT_MAX 1024

/* ---- whose connection it is
 * ------------------------------------------------------------ */

/* @return  as stomp_claim */
static int begins_with(struct slice data, const char *word)
{
	size_t len = strlen(word), n = data.len < len ? data.len : len;

	if (memcmp(data.data, word, n) != 0)
		return 0;
	data = slice_skip(data, n);
	if (data.len == 0 || slice_is(data, "\r"))
		return TIDE_AGAIN;
	return data.data[0] == '\n' || slice_has_prefix(data, "\r\n");
}

int stomp_claim(const char *data, size_t len)
{
	const struct slice text = { data, len };
	int is_connect = begins_with(text, "CONNECT");

	return is_connect ? is_connect : begins_with(text, "STOMP");
}

/* ---- frames ---------------------------------------------------------------------------
 */

static int (*const commands[])(struct stomp *l, struct stomp_frame *f) = {
	[STOMP_CONNECT] = stomp_connect,
	[STOMP_SUBSCRIBE] = stomp_subscribe,
	[STOMP_UNSUBSCRIBE] = stomp_subscribe_end,
	[STOMP_ACK] = stomp_settle,
	[STOMP_NACK] = stomp_settle,
	[STOMP_BEGIN] = run_transaction,
	[STOMP_COMMIT] = run_transaction,
	[STOMP_ABORT] = run_transaction,
	[STOMP_DISCONNECT] = stomp_connect_end,
};

static void lose(struct stomp *l, int code, const char *why)
{
	struct error err;

	error_set(&err, code, "%s", why);
	stomp_reply_error(l, NULL, &err);
}

static int check_frame(const struct stomp *l, struct stomp_frame *f)
{
	if (l->has_connected == (f->verb == STOMP_CONNECT)) {
		f->rc = error_set(f->err, TIDE_EDENIED,
				  l->has_connected
					  ? "this connection has sent CONNECT already"
					  : "the first frame must be CONNECT or STOMP");
		return stomp_frame_explain(f, "Illegal command", NULL);
	}
	if (f->verb != STOMP_CONNECT && session_login_check(l->base.session, f->err) < 0)
		return f->rc = f->err->code;
	if (stomp_frame_header(f, STOMP_H_RECEIPT).len > RECEIPT_MAX)
		return f->rc = error_set(f->err, TIDE_ETOOLONG,
					 "a receipt has at most %d bytes", RECEIPT_MAX);
	return TIDE_OK;
}

/* The body of a SEND: what it says, or up to the NUL that was found. */
static int check_length(const struct stomp *l, struct stomp_frame *f, size_t *body_len)
{
	struct slice length = stomp_frame_header(f, STOMP_H_CONTENT_LENGTH);
	uint64_t n = *body_len;

	if (length.data && !slice_to_uint(length, UINT64_MAX, &n)) {
		stomp_frame_refuse(f, STOMP_H_CONTENT_LENGTH, "a number of bytes");
		return f->rc;
	}
	if (f->verb != STOMP_SEND && n > 0)
		return f->rc = error_set(f->err, TIDE_ESYNTAX, "%s has no body",
					 stomp_frame_verb(f->verb));
	if (n > l->base.payload_max)
		return f->rc = error_set(
			       f->err, TIDE_ETOOLARGE,
			       "the body of %llu bytes exceeds the limit of %zu",
			       (unsigned long long)n, l->base.payload_max);
	*body_len = (size_t)n;
	return TIDE_OK;
}

/* @param body_len  if the head does not say it */
static void run_frame(struct stomp *l, char *head, size_t len, size_t body_len)
{
	struct stomp_frame f;
	struct error err;
	int rc = stomp_frame_parse(&f, head, len, (enum stomp_version)l->version, &err);

	if (rc == TIDE_OK)
		rc = check_frame(l, &f);
	if (rc == TIDE_OK)
		rc = check_length(l, &f, &body_len);
	if (rc == TIDE_OK)
		rc = f.verb == STOMP_SEND ? stomp_send(l, &f, body_len)
					  : commands[f.verb](l, &f);
	if (rc < 0 && f.is_told)
		l->state = STOMP_CLOSED;
	else if (rc < 0)
		stomp_reply_error(l, &f, &err);
	l->is_heavy = f.verb == STOMP_SUBSCRIBE || f.verb == STOMP_UNSUBSCRIBE;
}

/* A connection's first publish finds publishers held back. */
static bool must_wait(struct stomp *l)
{
	if (!session_publish_is_next_held(l->base.session))
		return false;
	session_publish_begin(l->base.session);
	return true;
}

/* The head is there; gives how much of it and of what follows was taken. */
static size_t feed_send(struct stomp *l, char *data, size_t head_len, size_t len)
{
	struct slice head = { data, head_len };
	const char *nul;

	if (must_wait(l))
		return 0;
	if (stomp_frame_has_length(head, (enum stomp_version)l->version)) {
		run_frame(l, data, head_len, 0);
		return head_len;
	}
	nul = memchr(data + head_len, '\0', len - head_len);
	if (nul) {
		run_frame(l, data, head_len, (size_t)(nul - data) - head_len);
		return head_len;
	}
	buf_append_slice(&l->head, head);
	l->state = STOMP_TEXT;
	return head_len;
}

static size_t feed_frame(struct stomp *l, char *data, size_t len)
{
	size_t head_len, end,
		most = len < PROTOCOL_UNREAD_MAX ? len : PROTOCOL_UNREAD_MAX;

	/* A byte between two frames, such as a heart-beat; or a NUL too many. */
	if (data[0] == '\n' || data[0] == '\0')
		return 1;
	if (data[0] == '\r' && (len < 2 || data[1] == '\n'))
		return len < 2 ? 0 : 2;
	head_len = stomp_frame_find_end(data, most, &l->scanned);
	if (head_len == SIZE_MAX) {
		lose(l, TIDE_ESYNTAX,
		     "a NUL is in the headers: an empty line ends them, the NUL ends the "
		     "body behind it");
		return 0;
	}
	if (head_len == 0 && most == PROTOCOL_UNREAD_MAX)
		lose(l, TIDE_ETOOLONG,
		     "the command and the headers of a frame have at most 65536 bytes");
	if (head_len == 0)
		return 0;
	if (stomp_frame_is_send((struct slice){ data, head_len })) {
		head_len = feed_send(l, data, head_len, len);
		l->scanned = head_len ? 0 : l->scanned;
		return head_len;
	}
	end = head_len;
	/* Line ends are no body. */
	while (end < most && (data[end] == '\n' || data[end] == '\r'))
		end++;
	if (end == len && end < PROTOCOL_UNREAD_MAX)
		return 0;
	l->scanned = 0;
	run_frame(l, data, head_len, end == most || data[end] != '\0');
	return end + 1;
}

/* A body whose length is not known; the NUL is its end. */
static size_t feed_text(struct stomp *l, char *data, size_t len)
{
	const char *nul = memchr(data, '\0', len);
	size_t n = nul ? (size_t)(nul - data) : len;
	struct slice body;

	if (n > l->base.payload_max - buf_len(&l->body)) {
		lose(l, TIDE_ETOOLARGE,
		     "the body exceeds the limit of a payload, or no NUL ends it");
		return 0;
	}
	buf_append(&l->body, data, n);
	protocol_receive(
		&l->base, n,
		protocol_missing_unknown(buf_len(&l->body), l->base.payload_max));
	if (!nul)
		return len;
	protocol_received(&l->base);
	body = buf_slice(&l->body);
	l->state = STOMP_FRAME;
	run_frame(l, l->head.data + l->head.start, buf_len(&l->head), body.len);
	if (l->state == STOMP_BODY && body.len > 0)
		protocol_fill(&l->base, body.data, body.len);
	if (l->state == STOMP_BODY)
		stomp_send_publish(l);
	buf_deinit(&l->head);
	buf_deinit(&l->body);
	return n + 1;
}

static size_t feed_body(struct stomp *l, char *data, size_t len)
{
	if (!protocol_is_filled(&l->base))
		return protocol_fill(&l->base, data, len);
	if (data[0] != '\0') {
		/* The reply is owed already. */
		struct error err;

		error_set(&err, TIDE_ESYNTAX,
			  "no NUL follows the body of %zu bytes: check content-length",
			  l->base.msg->payload_len);
		l->state = STOMP_CLOSED;
		reply_error(reply_create(session_channel(l->base.session, 0), false),
			    &err);
		return 0;
	}
	stomp_send_publish(l);
	return 1;
}

static size_t feed(struct protocol *p, char *data, size_t len)
{
	struct stomp *l = container_of(p, struct stomp, base);
	size_t at = 0, n;

	p->is_paused = false;
	l->is_heavy = false;
	session_begin(p->session);
	while (at < len && l->state != STOMP_CLOSED) {
		if (l->state == STOMP_FRAME && at > 0 &&
		    session_is_spent(p->session, l->is_heavy)) {
			p->is_paused = true;
			break;
		}
		if (l->state == STOMP_FRAME && protocol_is_held(p))
			break;
		if (l->state == STOMP_FRAME)
			n = feed_frame(l, data + at, len - at);
		else if (l->state == STOMP_BODY)
			n = feed_body(l, data + at, len - at);
		else
			n = feed_text(l, data + at, len - at);
		if (n == 0)
			break;
		at += n;
	}
	protocol_count_payload(p);
	return l->state == STOMP_CLOSED ? len : at;
}

static void init(struct protocol *p, const struct protocol_spec *spec)
{
	struct stomp *l = container_of(p, struct stomp, base);

	*l = (struct stomp){ 0 };
	add_channel(l, 0);
	protocol_init(p, &stomp_protocol, &stomp_reply_ops, spec);
	session_allowance_throttle(p->session);
}

static void deinit(struct protocol *p)
{
	struct stomp *l = container_of(p, struct stomp, base);

	l->state = STOMP_CLOSED;
	l->base.is_silent = true;
	protocol_deinit(p);
	free_channels(l);
	stomp_subscribe_deinit(l);
	free_transactions(l);
	mem_free(l->client_id);
	mem_free(l->login);
	mem_free(l->last_room);
	buf_deinit(&l->head);
	buf_deinit(&l->body);
	buf_deinit(&l->last_text);
	buf_deinit(&l->leaving);
}

static void tell_closed(struct protocol *p, const char *words)
{
	stomp_reply_closed(container_of(p, struct stomp, base), words);
}

static void heartbeat(struct protocol *p)
{
	out_append(p->out, "\n", 1);
	p->ops->wake(p->ctx);
}

const struct protocol_kind stomp_protocol = {
	.name = "stomp",
	.size = sizeof(struct stomp),
	.init = init,
	.deinit = deinit,
	.feed = feed,
	.tell_closed = tell_closed,
	.heartbeat = heartbeat,
};
