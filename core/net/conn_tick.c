/* What a connection is looked at for once a second. */
#include "conn_tick.h"

#include <poll.h>
#include <sys/ioctl.h>

#include "host/log.h"
#include "conn_tls.h"

/* Of the write timeout: how soon a peer goes on that was kept waiting. */
#define GOES_ON_SHARE 60

/* What a peer that goes on sending has in the socket at least while nobody reads it:
 * less than any socket takes by default. */
#define SOCKET_BYTES ((size_t)16 << 10)

/* What has come and is not read yet. */
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

/* Nothing is read of a connection that is held back: its end is asked for. */
static void look_for_end(struct conn *c)
{
	struct pollfd p = { .events = POLLRDHUP };

	if (uv_fileno(&c->socket.handle, &p.fd) < 0 || poll(&p, 1, 0) <= 0)
		return;
	if (p.revents & (POLLHUP | POLLERR))
		conn_close(c);
	else
		conn_note_end(c);
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
		conn_tls_give_up(c);
	tick_end(c);
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
