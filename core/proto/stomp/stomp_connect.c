#include "stomp_connect.h"

#include "base/mem.h"
#include "stomp_reply.h"

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
static bool is_address(struct slice host)
{
	return slice_is(host, "localhost") || memchr(host.data, '.', host.len) ||
	       memchr(host.data, ':', host.len);
}

/* data == NULL: the default one. */
static struct slice read_vhost(const struct stomp *l, struct stomp_frame *f)
{
	struct slice host = stomp_frame_header(f, STOMP_H_HOST);

	if (host.len == 0 ||
	    (is_address(host) && !session_has_vhost(l->base.session, host)))
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

/* Nobody has logged in. Its reply is the last of channel 0: nothing else is read
 * meanwhile. */
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

/* What it says of itself is good so far. */
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
	struct reply *r = stomp_channel_reply(l, zero, f);

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

int stomp_connect(struct stomp *l, struct stomp_frame *f)
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

/* Its receipt means that everything before it is done. */
int stomp_connect_end(struct stomp *l, struct stomp_frame *f)
{
	l->state = STOMP_CLOSED;
	l->is_leaving = true;
	session_leave(l->base.session);
	buf_append_slice(&l->leaving, stomp_frame_header(f, STOMP_H_RECEIPT));
	stomp_reply_leave(l);
	return TIDE_OK;
}
