#include "conn.h"

#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/mem.h"
#include "chooser.h"
#include "front.h"
#include "host/log.h"
#include "http/http.h"
#include "proto/line/line.h"
#include "proto/amqp/amqp.h"
#include "proto/stomp/stomp.h"
#include "session/service.h"
#include "stranger.h"

static void feed(struct conn *c, size_t len);
static void refuse(struct conn *c, const char *why);
static void note_end(struct conn *c);
static void consume_output(struct conn *c, size_t len);

/* ---- what TLS adds to a connection ---- */

static void log_tls_failure(const struct conn *c, const char *text)
{
	c->server->figures->tls_failures++;
	log_warn("%s: TLS: %s", c->peer, text);
}

/* The connection has failed: the log gets the reason, the peer an alert. */
static void fail_tls(struct conn *c)
{
	log_tls_failure(c, tls_error(c->tls));
	conn_end(c);
}

static void refuse_plain(struct conn *c, const char *data, size_t len)
{
	static const char text[] =
		"ERR syntax this port speaks TLS: connect with tides://HOST:PORT\r\n";
	char byte;

	/* The failure finds the words for the log. */
	tls_feed(c->tls, data, len);
	if (tls_read(c->tls, &byte, 1) < 0)
		log_tls_failure(c, tls_error(c->tls));
	tls_destroy(c->tls);
	c->tls = NULL;
	c->is_shaking = false;
	if (c->is_http)
		http_answer_whole(&c->out, 400, "syntax",
				  "this port speaks TLS: use https://");
	else
		out_append(&c->out, text, sizeof(text) - 1);
	conn_end(c);
}

static void give_up_handshake(struct conn *c)
{
	log_tls_failure(c, "the handshake takes longer than --handshake-timeout");
	conn_close(c);
}

/* Members of an object. */
static void describe_tls(const struct conn *c, struct json *out)
{
	const char *name = tls_peer_name(c->tls);

	json_member_text(out, "tls", tls_version(c->tls));
	json_member_text(out, "cipher", tls_cipher(c->tls));
	if (name)
		json_member_text(out, "certificate", name);
}

static void tls_facts(const struct conn *c, struct session_peer *out)
{
	out->is_tls = true;
	out->certificate = tls_peer_name(c->tls);
	out->is_certificate_user = c->server->config.is_tls_user;
}

/* ---- what time does to a connection: it is looked at once a second ---- */

/* Of the write timeout: how soon a peer goes on that was kept waiting. */
#define GOES_ON_SHARE 60

/* The bytes that a peer which goes on sending has in the socket at least while they
 * are not read: less than any socket takes by default. */
#define SOCKET_BYTES ((size_t)16 << 10)

/* Count the bytes that have come and are not read yet. */
static size_t count_unread(const struct conn *c)
{
	size_t in_tls = c->tls ? tls_unread_bytes(c->tls) : 0;
	uv_os_fd_t fd;
	int n = 0;

	if (uv_fileno(&c->socket.handle, &fd) < 0 || ioctl(fd, FIONREAD, &n) < 0)
		return in_tls;
	return in_tls + (size_t)n;
}

/* The peer has sent the rest of its payload, or as much as any socket takes: it is the
 * broker who keeps it waiting, unless the peer does not take its answers. How much is
 * missing is known of a message alone. */
static bool is_kept_waiting(const struct conn *c, size_t unread)
{
	const struct protocol *p = c->protocol;
	size_t missing = p->msg ? protocol_missing(p) : 1;

	return !c->is_full && unread >= (missing < SOCKET_BYTES ? missing : SOCKET_BYTES);
}

/* The payload under way has had its time to come, and others wait for the memory. Whether
 * a peer that is kept waiting has stopped is not known: when its turn comes it goes on at
 * once, or has. */
static bool is_in_the_way(struct conn *c, int64_t silent_ms)
{
	int64_t timeout_ms = c->server->config.write_timeout_ms;
	size_t unread = count_unread(c);
	bool is_waiting = is_kept_waiting(c, unread);
	bool has_stopped = unread == 0 && silent_ms > SERVER_TICK_MS &&
			   silent_ms > timeout_ms / GOES_ON_SHARE;

	c->receiving_ms += SERVER_TICK_MS;
	c->kept_waiting_ms += is_waiting ? SERVER_TICK_MS : 0;
	return timeout_ms && !is_waiting &&
	       c->receiving_ms - (has_stopped ? 0 : c->kept_waiting_ms) > timeout_ms &&
	       session_receive_is_waited_for(c->protocol->session);
}

/* A payload is under way since the last tick at least. */
static bool is_receiving(struct conn *c)
{
	uint64_t payload = c->protocol->is_counted ? c->protocol->received : 0;
	bool is_same = payload && payload == c->receiving;

	if (!is_same)
		c->receiving_ms = c->kept_waiting_ms = 0;
	c->receiving = payload;
	return is_same;
}

/* The socket has been full for so long, and the peer has read nothing of it. */
static bool is_stuck(struct conn *c, int64_t now_ms)
{
	int64_t timeout_ms = c->server->config.write_timeout_ms;
	size_t unwritten = uv_stream_get_write_queue_size(&c->socket.stream);

	if (c->writing == 0 || unwritten != c->unwritten) {
		c->unwritten = unwritten;
		c->last_progress_ms = now_ms;
		return false;
	}
	return timeout_ms && now_ms - c->last_progress_ms > timeout_ms;
}

/* A connection that is held back is not read: its end is asked for. */
static void look_for_end(struct conn *c)
{
	struct pollfd p = { .events = POLLRDHUP };

	if (uv_fileno(&c->socket.handle, &p.fd) < 0 || poll(&p, 1, 0) <= 0)
		return;
	if (p.revents & (POLLHUP | POLLERR))
		conn_close(c);
	else
		note_end(c);
}

/* The peer may have gone while its requests wait. */
static void tick_end(struct conn *c)
{
	if (!c->protocol || c->is_closing || c->is_reading)
		return;
	if (c->is_ended)
		session_return_held(c->protocol->session);
	else
		look_for_end(c);
}

/* As the protocol would, if there were one. */
static void tick_undecided(struct conn *c, int64_t now_ms)
{
	const struct server_config *config = &c->server->config;

	if (c->is_http && now_ms - c->accepted_ms > config->http_timeout_ms)
		conn_close(c);
	else if (config->idle_timeout_ms &&
		 now_ms - c->last_read_ms > config->idle_timeout_ms)
		conn_close_with(c, "busy no input for the idle timeout");
}

void conn_tick(struct conn *c, int64_t now_ms)
{
	int64_t idle_ms = c->server->config.idle_timeout_ms;
	int64_t silent_ms = now_ms - c->last_read_ms;
	struct protocol *p;

	if (c->is_lingering && now_ms >= c->linger_until_ms)
		conn_close(c);
	if (!c->is_closing && is_stuck(c, now_ms)) {
		log_warn("%s: closed: it read nothing for the write timeout", c->peer);
		conn_close(c);
	}
	if (c->is_shaking && !c->is_finishing &&
	    now_ms - c->accepted_ms > c->server->config.handshake_timeout_ms)
		give_up_handshake(c);
	if (c->gate && !c->protocol && !c->is_shaking)
		gate_tick(c->gate, now_ms);
	tick_end(c);
	if (c->is_undecided && !c->is_finishing && !c->is_closing)
		tick_undecided(c, now_ms);
	/* Input that is held back is not silence. */
	if (!c->protocol || c->is_finishing || c->is_closing)
		return;
	p = c->protocol;
	if (p->kind->tick)
		p->kind->tick(p, now_ms);
	if (c->is_reading && p->heartbeat_in_ms && silent_ms > 2 * p->heartbeat_in_ms) {
		session_break(p->session);
		conn_close_with(c, "busy no input for two heartbeats");
	} else if (is_receiving(c) && is_in_the_way(c, silent_ms))
		conn_close_with(c, "busy the rest of a payload did not arrive");
	else if (c->is_reading && idle_ms && silent_ms > idle_ms)
		conn_close_with(c, "busy no input for the idle timeout");
	else if (p->heartbeat_out_ms && c->out.bytes == 0 &&
		 now_ms - c->last_write_ms + SERVER_TICK_MS > p->heartbeat_out_ms)
		p->kind->heartbeat(p);
}

#define WRITE_IOVECS 64
/* The bytes that are encrypted before some of them are sent. */
#define CIPHER_BYTES ((size_t)64 << 10)
#define LINGER_MS 2000

static void op_wake(void *ctx)
{
	struct conn *c = ctx;

	server_due(c->server, c);
}

void conn_finish(struct conn *c)
{
	c->is_finishing = true;
	server_due(c->server, c);
}

static void op_finish(void *ctx)
{
	conn_finish(ctx);
}

/* Unless it was to end: it has left in order, or is closed. */
static void note_break(struct conn *c)
{
	if (c->protocol && !c->is_finishing)
		session_break(c->protocol->session);
}

static void op_kill(void *ctx)
{
	struct conn *c = ctx;

	c->is_killed = true;
	op_finish(c);
}

void conn_end(struct conn *c)
{
	op_kill(c);
}

static bool op_can_take(void *ctx)
{
	struct conn *c = ctx;

	if (c->is_full || c->is_finishing || c->is_closing)
		return false;
	if (c->out.bytes <= c->server->config.output_high_bytes)
		return true;
	c->is_full = true;
	return false;
}

static void op_describe(void *ctx, struct json *out)
{
	struct conn *c = ctx;

	json_member_text(out, "peer", c->peer);
	json_member_int(out, "bytes_in", (int64_t)c->bytes_in);
	json_member_int(out, "bytes_out", (int64_t)c->bytes_out);
	json_member_int(out, "output", (int64_t)c->out.bytes);
	json_member_bool(out, "held_back", !c->is_reading);
	if (c->gate)
		gate_describe(c->gate, out);
	else if (c->tls)
		describe_tls(c, out);
}

static void op_facts(void *ctx, struct session_peer *out)
{
	const struct conn *c = ctx;

	out->address = c->peer;
	out->is_local = c->is_local;
	out->bytes_in = c->bytes_in;
	out->bytes_out = c->bytes_out;
	out->output = c->out.bytes;
	if (c->gate)
		gate_facts(c->gate, out);
	else if (c->tls)
		tls_facts(c, out);
}

static unsigned cell_of(const struct conn *c, const struct choice *choice)
{
	const struct server *s = c->server;
	struct slice vhost = { choice->vhost, choice->vhost_len };

	if (choice->kind == CHOICE_VHOST)
		return service_net_cell_of(s->service, vhost);
	if (choice->kind == CHOICE_CELL && choice->cell < s->cells)
		return choice->cell;
	return server_default_cell(s);
}

/* Each request over HTTP may be of another vhost. */
static bool op_is_elsewhere(void *ctx, const char *target)
{
	struct conn *c = ctx;
	struct choice choice;

	if (c->server->cells == 1 || c->gate)
		return false;
	chooser_read_target(slice_from(target), &choice);
	c->cell = cell_of(c, &choice);
	c->has_moved = server_front(c->server, c->cell) != NULL;
	return c->has_moved;
}

static const struct protocol_ops ops = {
	.finish = op_finish,
	.kill = op_kill,
	.wake = op_wake,
	.can_take = op_can_take,
	.describe = op_describe,
	.facts = op_facts,
	.is_elsewhere = op_is_elsewhere,
};

/* Nothing takes its input now. */
static bool is_held(const struct conn *c)
{
	if (c->protocol)
		return protocol_is_held(c->protocol);
	if (c->relay)
		return relay_is_held(c->relay);
	return !c->is_undecided && (!c->gate || c->is_shaking);
}

static bool may_feed(const struct conn *c)
{
	return !c->is_finishing && !c->is_closing && !c->is_full &&
	       !c->server->is_draining && !is_held(c);
}

static bool may_read(const struct conn *c)
{
	if (c->is_finishing)
		return c->protocol && !c->is_ended && !c->is_closing &&
		       !c->server->is_draining;
	return may_feed(c);
}

/* Where memory is waited for, input that may have to wait waits in its socket. */
static unsigned read_bytes(const struct conn *c)
{
	return c->protocol && session_receive_is_waited_for(c->protocol->session)
		       ? TLS_RECORD_BYTES
		       : SERVER_READ_BYTES;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
	struct conn *c = handle->data;
	/* Input behind the end is thrown away, and goes before nothing. */
	size_t held = c->is_finishing ? 0 : buf_len(&c->in), len;
	char *direct = c->protocol && held == 0 && !c->tls
			       ? protocol_direct(c->protocol, &len)
			       : NULL;

	c->is_direct = direct != NULL;
	/* Held back since its last read: what is not read costs nothing. */
	if ((c->protocol || c->relay) && !may_read(c)) {
		*out = uv_buf_init(NULL, 0);
		return;
	}
	if (direct) {
		*out = uv_buf_init(direct, len < UINT32_MAX ? (unsigned)len : UINT32_MAX);
		return;
	}
	if (c->tls) {
		/* The input of a stranger that may wait for its turn is little. */
		*out = uv_buf_init(c->server->cipher_buf,
				   c->is_shaking ? TLS_RECORD_BYTES : read_bytes(c));
		return;
	}
	/* The beginning of a cut request goes before what is read now. */
	*out = uv_buf_init(c->server->read_buf + held, read_bytes(c));
}

static void speak(struct conn *c, const struct protocol_kind *kind)
{
	const struct protocol_spec spec = {
		.service = c->server->service,
		.out = &c->out,
		.ops = &ops,
		.ctx = c,
		.payload_max = c->server->config.payload_max,
		.address = c->address,
		.shared = c->is_http ? c->server->http : NULL,
		.is_once = c->gate && c->server->cells > 1,
	};

	c->protocol = mem_alloc(kind->size);
	kind->init(c->protocol, &spec);
}

static void end_session(struct conn *c)
{
	struct protocol *p = c->protocol;

	if (!p)
		return;
	c->protocol = NULL;
	p->kind->deinit(p);
	mem_free(p);
}

static int enter_address(struct conn *c, struct error *err)
{
	if (c->has_entered)
		return TIDE_OK;
	c->has_entered = true;
	return service_address_enter(c->server->service, c->peer, &c->address, err);
}

/* Its address counts it there, and there it must log in. */
static void pass_through(struct conn *c, struct front *f)
{
	service_address_leave(c->server->service, c->address);
	c->address = NULL;
	c->has_entered = false;
	stranger_remove(c);
	c->relay = relay_create(f, c);
	server_due(c->server, c);
}

/* Choose the protocol before the first byte has come. */
static void serve_here(struct conn *c)
{
	struct error err;

	if (enter_address(c, &err) < 0) {
		refuse(c, err.text);
		return;
	}
	if (c->is_http)
		server_begin_http(c->server);
	speak(c, c->is_http ? &http_protocol : &line_protocol);
	c->is_settled = c->is_http;
}

static void begin_in(struct conn *c, unsigned cell)
{
	struct front *f = server_front(c->server, cell);

	c->is_undecided = false;
	if (f)
		pass_through(c, f);
	else
		serve_here(c);
}

void conn_begin(struct conn *c)
{
	if (c->gate)
		serve_here(c);
	else if (c->server->cells > 1)
		c->is_undecided = true;
	else
		begin_in(c, 0);
}

/* By the first bytes. False: more must come. */
static bool decide(struct conn *c, const char *data, size_t len)
{
	struct choice choice = { .kind = CHOICE_NONE };

	/* Who speaks TLS where there is none is told so. */
	if (!tls_is_first_byte(data[0]) && c->is_http)
		chooser_read_http((struct slice){ data, len }, &choice);
	else if (!tls_is_first_byte(data[0]))
		chooser_read((struct slice){ data, len }, &choice);
	if (choice.kind == CHOICE_MORE)
		return false;
	begin_in(c, cell_of(c, &choice));
	return true;
}

/* The request that comes next is another broker's. */
static void move(struct conn *c)
{
	struct front *f = server_front(c->server, c->cell);

	c->has_moved = false;
	end_session(c);
	if (f)
		pass_through(c, f);
	else
		conn_begin(c);
}

/* The connection is there, and TLS agreed upon. */
static void begin(struct conn *c, bool is_gate)
{
	if (is_gate)
		c->gate = gate_create(c);
	else
		conn_begin(c);
}

static void refuse_tls(struct conn *c)
{
	static const char text[] = "ERR syntax this port does not speak TLS: connect "
				   "with tide://HOST:PORT\r\n";

	out_append(&c->out, text, sizeof(text) - 1);
	op_finish(c);
}

/* Until the first line is there it is a connection of the line protocol. False: more must
 * come. */
static bool choose_protocol(struct conn *c, const char *data, size_t len)
{
	int claim = stomp_claim(data, len), claim_amqp = amqp_claim(data, len);

	if (claim == TIDE_AGAIN || claim_amqp == TIDE_AGAIN)
		return false;
	if (tls_is_first_byte(data[0])) {
		refuse_tls(c);
		return false;
	}
	c->is_settled = true;
	if (claim || claim_amqp) {
		end_session(c);
		speak(c, claim ? &stomp_protocol : &amqp_protocol);
	}
	return true;
}

static size_t feed_protocol(struct conn *c, char *data, size_t len)
{
	size_t at = 0;

	if (c->is_undecided && (len == 0 || !decide(c, data, len)))
		return 0;
	/* It has just been refused. */
	if (!c->relay && !c->gate && !c->protocol)
		return len;
	if (c->relay)
		return relay_feed(c->relay, data, len);
	if (c->gate && !c->protocol) {
		at = gate_feed(c->gate, data, len);
		if (!c->protocol)
			return at;
	}
	if (!c->is_settled) {
		while (at < len && (data[at] == '\n' || data[at] == '\r'))
			at++;
		if (at == len || !choose_protocol(c, data + at, len - at))
			return at;
	}
	at += c->protocol->kind->feed(c->protocol, data + at, len - at);
	if (c->has_moved)
		move(c);
	return at;
}

static void stop_reading(struct conn *c)
{
	if (!c->is_reading)
		return;
	c->is_reading = false;
	uv_read_stop(&c->socket.stream);
}

/* Count the bytes of a request whose rest the peer owes. */
static void count_unfinished(struct conn *c, bool is_another)
{
	struct server *s = c->server;
	size_t bytes = c->is_reading ? c->in.cap : 0;

	if (c->unfinished_bytes && (is_another || !bytes))
		TAILQ_REMOVE(&s->unfinished, c, unfinished_link);
	if (bytes && (is_another || !c->unfinished_bytes))
		TAILQ_INSERT_TAIL(&s->unfinished, c, unfinished_link);
	s->unfinished_bytes += bytes - c->unfinished_bytes;
	c->unfinished_bytes = bytes;
}

static void keep(struct conn *c, const char *data, size_t len)
{
	buf_clear(&c->in);
	if (len == 0) {
		buf_shrink(&c->in);
		return;
	}
	if (buf_try_reserve(&c->in, len) < 0) {
		log_warn("%s: closed: out of memory for its input", c->peer);
		conn_close(c);
		return;
	}
	buf_append(&c->in, data, len);
}

/* Does the connection go on in the next turn with the input that it has? */
static bool is_paused(const struct conn *c)
{
	return c->protocol && c->protocol->is_paused && may_feed(c);
}

static void after_feed(struct conn *c)
{
	if (is_paused(c))
		server_due(c->server, c);
	if (is_paused(c) || !may_read(c))
		stop_reading(c);
}

static void feed(struct conn *c, size_t len)
{
	char *data = c->server->read_buf;
	size_t held = buf_len(&c->in), used;

	if (held)
		memcpy(data, c->in.data + c->in.start, held);
	used = feed_protocol(c, data, held + len);
	keep(c, data + used, held + len - used);
	after_feed(c);
	count_unfinished(c, used > 0);
}

static void note_end(struct conn *c)
{
	c->has_left = true;
	session_end_waits(c->protocol->session);
	if (c->protocol->kind->ended)
		c->protocol->kind->ended(c->protocol);
}

/* A peer that has only closed its side still gets its answers. */
static void on_end(struct conn *c)
{
	c->is_ended = true;
	stop_reading(c);
	if (c->relay) {
		relay_end(c->relay);
		return;
	}
	note_break(c);
	note_end(c);
	op_finish(c);
}

/* Several records, while there is room. */
static size_t read_records(struct conn *c, char *place, size_t room, ssize_t *rc)
{
	size_t len = 0;

	do {
		*rc = tls_read(c->tls, place + len, room - len);
		len += *rc > 0 ? (size_t)*rc : 0;
	} while (*rc > 0 && room - len >= TLS_RECORD_BYTES);
	return len;
}

/* Plaintext, until there is no more, or the protocol takes no more. */
static void read_tls(struct conn *c)
{
	ssize_t rc;
	size_t len, room;
	char *direct;

	do {
		direct = c->protocol && buf_len(&c->in) == 0
				 ? protocol_direct(c->protocol, &room)
				 : NULL;
		if (direct) {
			rc = tls_read(c->tls, direct, room);
			if (rc > 0)
				protocol_filled(c->protocol, (size_t)rc);
			continue;
		}
		len = read_records(c, c->server->read_buf + buf_len(&c->in),
				   SERVER_READ_BYTES, &rc);
		if (c->is_shaking && tls_is_open(c->tls)) {
			c->is_shaking = false;
			c->server->figures->tls_handshakes++;
			begin(c, c->is_gate);
			if (!c->relay)
				stranger_renew(c);
		}
		if (len)
			feed(c, len);
	} while (rc > 0 && may_feed(c) && !is_paused(c));
	tls_keep(c->tls);
	if (rc == TIDE_EMPTY && (c->protocol || c->relay))
		on_end(c);
	else if (rc == TIDE_EMPTY && c->is_undecided)
		conn_close(c);
	else if (rc < 0 && rc != TIDE_AGAIN)
		fail_tls(c);
}

/* A handshake takes long: each turn has time for some. */
static void feed_tls(struct conn *c, const char *data, size_t len)
{
	if (c->bytes_in == len && !tls_is_first_byte(data[0])) {
		stop_reading(c);
		refuse_plain(c, data, len);
		return;
	}
	tls_feed(c->tls, data, len);
	if (!c->is_shaking) {
		read_tls(c);
		return;
	}
	tls_keep(c->tls);
	stop_reading(c);
	server_due(c->server, c);
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
	struct conn *c = stream->data;

	if (nread == 0)
		return;
	if (nread == UV_EOF && (c->protocol || c->relay)) {
		on_end(c);
		return;
	}
	if (nread == UV_ENOBUFS) {
		stop_reading(c);
		return;
	}
	if (nread < 0) {
		if (nread != UV_EOF && nread != UV_ECONNRESET)
			log_debug("%s: %s", c->peer, uv_strerror((int)nread));
		conn_close(c);
		return;
	}
	c->last_read_ms = (int64_t)uv_now(c->server->loop);
	c->bytes_in += (uint64_t)nread;
	c->server->figures->bytes_in += (uint64_t)nread;
	if (c->is_finishing)
		return;
	if (c->tls)
		feed_tls(c, buf->base, (size_t)nread);
	else if (c->is_direct)
		protocol_filled(c->protocol, (size_t)nread);
	else
		feed(c, (size_t)nread);
	server_limit_unfinished(c->server);
}

static void start_reading(struct conn *c)
{
	if (c->is_reading || uv_read_start(&c->socket.stream, on_alloc, on_read) < 0)
		return;
	c->is_reading = true;
}

/* Go on with the handshake, if this turn has time for it. */
static void shake(struct conn *c)
{
	uint64_t since_ns = uv_hrtime();

	if (c->is_finishing || c->is_reading || c->server->is_draining)
		return;
	if (!server_may_shake(c->server)) {
		server_due(c->server, c);
		return;
	}
	read_tls(c);
	server_shook(c->server, uv_hrtime() - since_ns);
	if (c->is_shaking && !c->is_finishing)
		start_reading(c);
}

/* Take up input that was held back, then the socket. */
static void resume(struct conn *c)
{
	if (c->is_shaking)
		shake(c);
	if (c->is_reading || !may_read(c))
		return;
	if (buf_len(&c->in) && may_feed(c)) {
		char *data = c->in.data + c->in.start;
		size_t used = feed_protocol(c, data, buf_len(&c->in));

		buf_consume(&c->in, used);
		buf_shrink(&c->in);
		after_feed(c);
	}
	if (c->protocol && c->protocol->has_input && may_feed(c)) {
		feed_protocol(c, NULL, 0);
		after_feed(c);
	}
	if (c->tls && tls_has_input(c->tls) && may_feed(c) && !is_paused(c))
		read_tls(c);
	if (may_read(c) && !is_paused(c))
		start_reading(c);
	count_unfinished(c, false);
}

static void consume_output(struct conn *c, size_t len)
{
	out_consume(&c->out, len);
	c->last_write_ms = (int64_t)uv_now(c->server->loop);
	if (c->protocol)
		protocol_sent(c->protocol);
	if (c->relay && c->out.bytes <= c->server->config.output_low_bytes)
		relay_drained(c->relay);
	if (!c->is_full || c->out.bytes > c->server->config.output_low_bytes)
		return;
	c->is_full = false;
	if (c->protocol)
		session_drained(c->protocol->session);
	server_due(c->server, c);
}

static void on_written(uv_write_t *req, int status)
{
	struct conn *c = req->data;
	size_t len = c->writing;

	c->writing = 0;
	buf_deinit(&c->cipher);
	if (c->is_closed)
		return;
	if (status < 0) {
		conn_close(c);
		return;
	}
	conn_count_sent(c, len);
	if (!c->tls)
		consume_output(c, len);
	server_due(c->server, c);
}

/* The bytes that the socket is to take next: with TLS what is encrypted, else the output.
 */
static size_t gather_bytes(const struct conn *c, uv_buf_t *bufs, unsigned *count)
{
	struct iovec vec[WRITE_IOVECS];
	size_t total = 0;

	if (c->tls) {
		const struct buf *out = tls_out(c->tls);

		*count = 1;
		*bufs = uv_buf_init(out->data + out->start, (unsigned)buf_len(out));
		return buf_len(out);
	}
	*count = out_iovecs(&c->out, vec, WRITE_IOVECS);
	for (unsigned i = 0; i < *count; i++) {
		bufs[i] = uv_buf_init(vec[i].iov_base, (unsigned)vec[i].iov_len);
		total += vec[i].iov_len;
	}
	return total;
}

static void take_sent(struct conn *c, size_t len)
{
	conn_count_sent(c, len);
	if (c->tls)
		buf_consume(tls_out(c->tls), len);
	else
		consume_output(c, len);
}

/* Send what is to be sent next; libuv takes charge of what the socket does not take. */
static void push_bytes(struct conn *c)
{
	uv_buf_t bufs[WRITE_IOVECS];
	unsigned count;
	size_t total = gather_bytes(c, bufs, &count);
	int n = uv_try_write(&c->socket.stream, bufs, count);

	if (n < 0 && n != UV_EAGAIN) {
		conn_close(c);
		return;
	}
	take_sent(c, n < 0 ? 0 : (size_t)n);
	if (n >= 0 && (size_t)n == total) {
		if (c->tls)
			buf_shrink(tls_out(c->tls));
		return;
	}
	c->writing = gather_bytes(c, bufs, &count);
	if (c->tls) {
		c->cipher = *tls_out(c->tls);
		*tls_out(c->tls) = (struct buf){ 0 };
	}
	c->write.data = c;
	if (uv_write(&c->write, &c->socket.stream, bufs, count, on_written) < 0) {
		c->writing = 0;
		conn_close(c);
	}
}

static void encrypt_output(struct conn *c)
{
	struct iovec vec[WRITE_IOVECS];
	unsigned count = out_iovecs(&c->out, vec, WRITE_IOVECS);
	ssize_t n = tls_write(c->tls, vec, count, CIPHER_BYTES);

	if (n < 0)
		conn_close(c);
	else
		consume_output(c, (size_t)n);
}

/* Send the output, encrypted with TLS, as far as the socket takes it. */
static void flush_output(struct conn *c)
{
	if (c->protocol && c->protocol->kind->flush)
		c->protocol->kind->flush(c->protocol);
	while (c->writing == 0 && !c->is_closing) {
		if (c->tls && c->out.bytes > 0 && !c->is_shaking)
			encrypt_output(c);
		if (c->tls ? buf_len(tls_out(c->tls)) == 0 : c->out.bytes == 0)
			return;
		push_bytes(c);
	}
	/* A peer that asks for new keys and reads no answers. */
	if (c->tls && buf_len(tls_out(c->tls)) > c->server->config.output_low_bytes)
		conn_close(c);
}

static void finish_tls(struct conn *c)
{
	tls_finish(c->tls);
	if (buf_len(tls_out(c->tls)) > 0)
		push_bytes(c);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct conn *c = handle->data;
	struct server *s = c->server;

	out_deinit(&c->out);
	buf_deinit(&c->in);
	buf_deinit(&c->cipher);
	tls_destroy(c->tls);
	mem_free(c);
	server_conn_gone(s);
}

static bool has_output(const struct conn *c)
{
	return c->out.bytes > 0 ||
	       (c->tls && (c->writing > 0 || buf_len(tls_out(c->tls)) > 0));
}

static void close_now(struct conn *c)
{
	if (c->is_closed)
		return;
	/* A peer without a goodbye takes the end for an attack. */
	if (c->tls && !c->is_lingering && !has_output(c))
		finish_tls(c);
	c->is_closed = true;
	stop_reading(c);
	count_unfinished(c, false);
	end_session(c);
	relay_destroy(c->relay);
	gate_destroy(c->gate);
	service_address_leave(c->server->service, c->address);
	stranger_remove(c);
	c->server->self.clients -= !c->is_gate;
	TAILQ_REMOVE(&c->server->conns, c, link);
	if (c->is_due) {
		TAILQ_REMOVE(&c->server->due, c, due_link);
		c->is_due = false;
	}
	uv_close(&c->socket.handle, on_handle_closed);
}

void conn_close(struct conn *c)
{
	if (c->is_closing)
		return;
	c->is_closing = true;
	note_break(c);
	stranger_remove(c);
	server_due(c->server, c);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
	/* The other side's end, or the tick, closes the connection. */
}

/* Everything is said: close our side and wait a moment for the other's. */
static void linger(struct conn *c)
{
	end_session(c);
	if (c->tls)
		finish_tls(c);
	stranger_remove(c);
	if (c->is_brief) {
		conn_close(c);
		return;
	}
	c->is_lingering = true;
	c->linger_until_ms = (int64_t)uv_now(c->server->loop) + LINGER_MS;
	if (uv_shutdown(&c->shutdown, &c->socket.stream, on_shutdown) < 0) {
		conn_close(c);
		return;
	}
	start_reading(c);
}

void conn_serve(struct conn *c)
{
	if (!c->is_closing)
		resume(c);
	if (!c->is_closing)
		flush_output(c);
	if (c->is_killed && has_output(c))
		conn_close(c);
	if (c->is_finishing && !c->is_lingering && !c->is_closing && !has_output(c) &&
	    (c->is_killed || !c->protocol || protocol_is_answered(c->protocol)))
		linger(c);
	if (c->is_closing)
		close_now(c);
	else if (c->is_stranger)
		stranger_check(c);
}

void conn_drain(struct conn *c)
{
	stop_reading(c);
	if (c->protocol && !c->is_finishing)
		c->protocol->kind->tell_closed(c->protocol,
					       "shutdown the broker is stopping");
}

bool conn_is_drained(const struct conn *c)
{
	if (c->is_lingering || c->is_shaking)
		return true;
	return !c->relay && !has_output(c) &&
	       (!c->protocol || protocol_is_answered(c->protocol));
}

void conn_close_with(struct conn *c, const char *words)
{
	if (!c->protocol && !c->is_undecided) {
		conn_close(c);
		return;
	}
	if (c->protocol) {
		c->protocol->kind->tell_closed(c->protocol, words);
	} else if (!c->is_http) {
		out_append(&c->out, "EVT closed ", 11);
		out_append(&c->out, words, strlen(words));
		out_append(&c->out, "\r\n", 2);
	}
	stop_reading(c);
	op_finish(c);
}

void conn_give_up_input(struct conn *c)
{
	conn_close_with(c, "busy the rest of a line did not arrive");
	buf_clear(&c->in);
	buf_shrink(&c->in);
	count_unfinished(c, false);
}

static void refuse(struct conn *c, const char *why)
{
	c->server->figures->refused++;
	if (c->is_http) {
		http_answer_whole(&c->out, 503, "limit", why);
		op_finish(c);
		return;
	}
	out_append(&c->out, "ERR limit ", 10);
	out_append(&c->out, why, strlen(why));
	out_append(&c->out, "\r\n", 2);
	op_finish(c);
}

/* Is the connection one too many, of all or of its address? */
static bool is_too_many(struct conn *c, struct error *err)
{
	struct server *s = c->server;

	/* Whoever serves it counts its address. */
	if (s->conn_count <= s->config.connections_max)
		return !c->is_gate && s->cells == 1 && !server_front(s, 0) &&
		       enter_address(c, err) < 0;
	error_set(err, TIDE_ELIMIT, "the limit of %u connections is reached",
		  s->config.connections_max);
	return true;
}

void conn_accept(struct server *s, uv_stream_t *listener, struct conn_kind kind)
{
	struct conn *c = mem_zalloc(sizeof(*c));
	bool is_unix = listener->type == UV_NAMED_PIPE;
	struct sockaddr_storage addr;
	int len = sizeof(addr);
	struct error err;

	c->server = s;
	c->is_http = kind.is_http;
	c->is_gate = kind.is_gate;
	s->self.clients += !kind.is_gate;
	out_init(&c->out, &s->chunks);
	server_init_socket(s, &c->socket, is_unix);
	c->socket.stream.data = c;
	TAILQ_INSERT_TAIL(&s->conns, c, link);
	s->conn_count++;
	s->figures->accepted++;
	if (uv_accept(listener, &c->socket.stream) < 0 ||
	    s->conn_count > s->config.connections_max + SERVER_REFUSED_MAX) {
		s->figures->refused++;
		/* Now: the turn may bring thousands, and each has a descriptor. */
		close_now(c);
		return;
	}
	snprintf(c->peer, sizeof(c->peer), is_unix ? "unix" : "?");
	c->is_local = is_unix;
	if (!is_unix) {
		uv_tcp_nodelay(&c->socket.tcp, 1);
		if (uv_tcp_getpeername(&c->socket.tcp, (struct sockaddr *)&addr, &len) ==
		    0) {
			server_format_address(&addr, c->peer);
			c->is_local = server_is_loopback(&addr);
		}
	}
	c->accepted_ms = (int64_t)uv_now(s->loop);
	c->last_read_ms = c->last_write_ms = c->accepted_ms;
	if (is_too_many(c, &err)) {
		refuse(c, err.text);
		return;
	}
	c->is_shaking = kind.is_tls;
	if (kind.is_tls)
		c->tls = tls_create_server(s->tls);
	else
		begin(c, kind.is_gate);
	if (!c->relay)
		stranger_add(c);
	if (c->is_shaking || may_read(c))
		start_reading(c);
}
