#include "http_relay.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "http_conn.h"
#include "http_engine.h"
#include "http_request_private.h"

/* Of what the engine has written: what waits for the peer at most, or a little more. */
#define OUTPUT_BYTES ((size_t)256 << 10)
#define PIECE_BYTES 65536

static void watch(struct http_relay *r);
static void forget_end(struct http_relay *r);

void http_relay_unref(struct http_relay *r)
{
	if (--r->refs > 0)
		return;
	buf_deinit(&r->in);
	mem_free(r);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct http_relay *r = handle->data;

	close(r->fd);
	http_relay_unref(r);
}

/* The engine has closed its end. */
static void finish(struct http_relay *r)
{
	r->is_over = true;
	forget_end(r);
	r->conn->base.is_busy = false;
	r->conn->base.ops->finish(r->conn->base.ctx);
}

static bool can_pull(const struct http_relay *r)
{
	return r->conn->base.out->bytes < OUTPUT_BYTES;
}

static ssize_t pull(struct http_relay *r, bool is_all)
{
	struct protocol *p = &r->conn->base;
	char bytes[PIECE_BYTES];
	ssize_t n = 1;

	while (n > 0 && (is_all || can_pull(r))) {
		n = recv(r->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n > 0) {
			out_append(p->out, bytes, (size_t)n);
			p->ops->wake(p->ctx);
		}
	}
	return n;
}

void http_relay_take(struct http_relay *r)
{
	pull(r, true);
}

void http_relay_pull(struct http_relay *r)
{
	struct protocol *p = &r->conn->base;
	ssize_t n = pull(r, false);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		finish(r);
	else if (n < 0 && !r->conn->request && !r->has_ended)
		p->is_busy = false;
	watch(r);
}

/* Give the engine what it takes of it. */
static size_t push(struct http_relay *r, const char *data, size_t len)
{
	ssize_t n = send(r->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return len; /* it has closed its end, which the next pull sees */
	return n < 0 ? 0 : (size_t)n;
}

static void push_kept(struct http_relay *r)
{
	struct protocol *p = &r->conn->base;

	buf_consume(&r->in, push(r, r->in.data + r->in.start, buf_len(&r->in)));
	if (buf_len(&r->in) > 0)
		return;
	buf_deinit(&r->in);
	p->is_full = false;
	p->ops->wake(p->ctx);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct http_relay *r = poll->data;

	if (!r->conn)
		return;
	if (events & UV_WRITABLE && buf_len(&r->in) > 0)
		push_kept(r);
	http_relay_pull(r);
}

/* For what can be done now. */
static void watch(struct http_relay *r)
{
	int events = (can_pull(r) && !r->is_over ? UV_READABLE : 0) |
		     (buf_len(&r->in) > 0 ? UV_WRITABLE : 0);

	if (events == r->events)
		return;
	r->events = events;
	if (events)
		uv_poll_start(&r->poll, events, on_poll);
	else
		uv_poll_stop(&r->poll);
}

struct http_relay *http_relay_create(struct http_engine *e, struct http_conn *conn)
{
	struct http_relay *r;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return NULL;
	r = mem_zalloc(sizeof(*r));
	r->fd = pair[0];
	r->refs = 2;
	r->conn = conn;
	uv_poll_init(e->loop, &r->poll, r->fd);
	r->poll.data = r;
	if (http_engine_add(e, pair[1], r) < 0) {
		http_relay_close(r);
		return NULL;
	}
	watch(r);
	return r;
}

void http_relay_close(struct http_relay *r)
{
	forget_end(r);
	r->conn = NULL;
	/* The engine sees the end before the handle is closed. */
	shutdown(r->fd, SHUT_RDWR);
	uv_close((uv_handle_t *)&r->poll, on_handle_closed);
	http_relay_unref(r);
}

void http_relay_feed(struct http_relay *r, const char *data, size_t len)
{
	size_t used = buf_len(&r->in) > 0 ? 0 : push(r, data, len);

	if (used == len)
		return;
	buf_append(&r->in, data + used, len - used);
	r->conn->base.is_full = true;
	watch(r);
}

void http_relay_end(struct http_relay *r)
{
	if (r->has_ended || r->is_over)
		return;
	r->has_ended = true;
	r->conn->base.is_busy = true;
	TAILQ_INSERT_TAIL(&r->conn->engine->ending, r, ending_link);
	http_engine_wake(r->conn->engine);
}

static void forget_end(struct http_relay *r)
{
	if (r->has_ended)
		TAILQ_REMOVE(&r->conn->engine->ending, r, ending_link);
	r->has_ended = false;
}

/* A request whose rest will not come gets no answer. */
static bool is_answering(const struct http_request *q, bool is_idle)
{
	return q && !(is_idle && http_request_is_partial(q));
}

/* Told by a closed socket the engine would miss it: what is read before hides it. */
void http_relay_check_end(struct http_relay *r, bool is_idle)
{
	int unread = 0;

	if (is_answering(r->conn->request, is_idle) || buf_len(&r->in) > 0 ||
	    (ioctl(r->fd, SIOCOUTQ, &unread) == 0 && unread > 0))
		return;
	forget_end(r);
	http_relay_pull(r);
	if (r->conn->request)
		r->conn->base.is_busy = false;
	r->conn->base.ops->finish(r->conn->base.ctx);
}
