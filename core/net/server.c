#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/log.h"
#include "conn.h"

#define BACKLOG 4096
#define TICK_MS 1000

struct listener {
	SLIST_ENTRY(listener) link;
	struct server *server;
	union server_socket socket;
};

void server_config_init(struct server_config *c)
{
	*c = (struct server_config){
		.connections_max = 20000,
		.payload_max = LINE_PAYLOAD_MAX_DEFAULT,
		.output_high_bytes = (size_t)1 << 20,
		.output_low_bytes = (size_t)256 << 10,
		.write_timeout_ms = 5 * 60 * 1000,
	};
}

static void on_tick(uv_timer_t *timer)
{
	struct server *s = timer->data;
	int64_t now_ms = (int64_t)uv_now(s->loop);
	struct conn *c;

	/* No connection goes before the end of the turn. */
	TAILQ_FOREACH (c, &s->conns, link)
		conn_tick(c, now_ms);
}

struct server *server_create(uv_loop_t *loop, struct service *service,
			     const struct server_config *config)
{
	struct server *s = mem_zalloc(sizeof(*s));

	s->loop = loop;
	s->service = service;
	s->config = *config;
	TAILQ_INIT(&s->conns);
	TAILQ_INIT(&s->due);
	out_pool_init(&s->chunks);
	s->read_buf = mem_alloc(LINE_MAX_BYTES + SERVER_READ_BYTES);
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	uv_idle_init(loop, &s->idle);
	s->idle.data = s;
	s->handles = 2;
	uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
	return s;
}

static void finish_close(struct server *s)
{
	void (*on_closed)(void *ctx) = s->on_closed;
	void *ctx = s->ctx;

	if (!s->is_closing || s->handles > 0 || s->conn_count > 0)
		return;
	pool_deinit(&s->chunks);
	mem_free(s->read_buf);
	mem_free(s);
	on_closed(ctx);
}

void server_conn_gone(struct server *s)
{
	s->conn_count--;
	finish_close(s);
}

static void on_connection(uv_stream_t *stream, int status)
{
	if (status < 0)
		log_warn("cannot accept a connection: %s", uv_strerror(status));
	else
		conn_accept(((struct listener *)stream->data)->server, stream);
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct listener *l = handle->data;
	struct server *s = l->server;

	mem_free(l);
	s->handles--;
	finish_close(s);
}

static void close_listeners(struct server *s)
{
	struct listener *l;

	while ((l = SLIST_FIRST(&s->listeners)) != NULL) {
		SLIST_REMOVE_HEAD(&s->listeners, link);
		uv_close(&l->socket.handle, on_listener_closed);
	}
}

/* "HOST:PORT" or "[HOST]:PORT"; an empty host or * is every address. */
static int split(const char *address, char *host, size_t host_size, char *port,
		 size_t port_size)
{
	const char *colon = strrchr(address, ':');
	size_t len;
	uint64_t n;

	if (!colon || !slice_to_uint(slice_from(colon + 1), 65535, &n))
		return TIDE_ESYNTAX;
	len = (size_t)(colon - address);
	if (len >= 2 && address[0] == '[' && address[len - 1] == ']') {
		address++;
		len -= 2;
	} else if (memchr(address, ':', len)) {
		return TIDE_ESYNTAX;
	}
	if (len >= host_size || strlen(colon + 1) >= port_size)
		return TIDE_ESYNTAX;
	snprintf(host, host_size, "%.*s", (int)len, address);
	if (len == 0 || strcmp(host, "*") == 0)
		snprintf(host, host_size, "0.0.0.0");
	snprintf(port, port_size, "%s", colon + 1);
	return TIDE_OK;
}

static int cannot_listen(const char *address, int uv_error, struct error *err)
{
	return error_set(err, uv_error, "cannot listen on %s: %s", address,
			 uv_strerror(uv_error));
}

static int bind_tcp(struct listener *l, const char *address, struct error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	char host[128], port[8];
	uv_getaddrinfo_t req;
	int rc;

	if (split(address, host, sizeof(host), port, sizeof(port)) < 0)
		return error_set(err, TIDE_ESYNTAX,
				 "'%s' is not an address: expected HOST:PORT, "
				 "[IPv6]:PORT or unix:PATH",
				 address);
	/* Without a callback it blocks, which is allowed before the start. */
	rc = uv_getaddrinfo(l->server->loop, &req, NULL, host, port, &hints);
	if (rc < 0)
		return error_set(err, rc, "cannot resolve '%s': %s", host,
				 uv_strerror(rc));
	rc = uv_tcp_bind(&l->socket.tcp, req.addrinfo->ai_addr, 0);
	uv_freeaddrinfo(req.addrinfo);
	return rc < 0 ? cannot_listen(address, rc, err) : TIDE_OK;
}

/* Remove the socket of a killed broker, which has no listener. */
static void remove_stale(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* Any other failure may come from a broker that is only busy. */
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 &&
	    errno == ECONNREFUSED)
		unlink(path);
	close(fd);
}

static int bind_unix(struct listener *l, const char *address, struct error *err)
{
	const char *path = address + strlen(SERVER_UNIX);
	const size_t path_max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
	int rc;

	if (path[0] == '\0' || strlen(path) > path_max)
		return error_set(err, TIDE_ESYNTAX, "%s: expected a path of 1-%zu bytes",
				 address, path_max);
	remove_stale(path);
	rc = uv_pipe_bind(&l->socket.pipe, path);
	return rc < 0 ? cannot_listen(address, rc, err) : TIDE_OK;
}

void server_format_address(const struct sockaddr_storage *from,
			   char out[SERVER_ADDRESS_MAX])
{
	char host[INET6_ADDRSTRLEN] = "?";

	uv_ip_name((const struct sockaddr *)from, host, sizeof(host));
	/* The port lies at the same place in both kinds of address. */
	snprintf(out, SERVER_ADDRESS_MAX,
		 from->ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", host,
		 ntohs(((const struct sockaddr_in *)from)->sin_port));
}

void server_open_socket(struct server *s, union server_socket *socket, bool is_unix)
{
	if (is_unix)
		uv_pipe_init(s->loop, &socket->pipe, 0);
	else
		uv_tcp_init(s->loop, &socket->tcp);
}

int server_listen(struct server *s, const char *address, char bound[SERVER_ADDRESS_MAX],
		  struct error *err)
{
	struct listener *l = mem_zalloc(sizeof(*l));
	bool is_unix = strncmp(address, SERVER_UNIX, strlen(SERVER_UNIX)) == 0;
	struct sockaddr_storage addr;
	int len = sizeof(addr), rc;

	l->server = s;
	server_open_socket(s, &l->socket, is_unix);
	l->socket.handle.data = l;
	SLIST_INSERT_HEAD(&s->listeners, l, link);
	s->handles++;
	rc = is_unix ? bind_unix(l, address, err) : bind_tcp(l, address, err);
	if (rc < 0)
		return rc;
	rc = uv_listen(&l->socket.stream, BACKLOG, on_connection);
	if (rc < 0)
		return cannot_listen(address, rc, err);
	snprintf(bound, SERVER_ADDRESS_MAX, "%s", address);
	if (!is_unix &&
	    uv_tcp_getsockname(&l->socket.tcp, (struct sockaddr *)&addr, &len) == 0)
		server_format_address(&addr, bound);
	return TIDE_OK;
}

void server_due(struct server *s, struct conn *c)
{
	if (c->is_due || c->is_closed)
		return;
	c->is_due = true;
	TAILQ_INSERT_TAIL(&s->due, c, due_link);
}

static void on_idle(uv_idle_t *handle)
{
	/* It keeps the loop from waiting; the turn does the work. */
}

void server_turn(struct server *s)
{
	struct conn *last = TAILQ_LAST(&s->due, conn_list);
	struct conn *c;
	bool is_last;

	/* Those that are due again because of this pass wait for the next one. */
	while ((c = TAILQ_FIRST(&s->due)) != NULL) {
		is_last = c == last;
		c->is_due = false;
		TAILQ_REMOVE(&s->due, c, due_link);
		conn_serve(c);
		if (is_last)
			break;
	}
	if (!TAILQ_EMPTY(&s->due) && !s->is_closing)
		uv_idle_start(&s->idle, on_idle);
	else
		uv_idle_stop(&s->idle);
}

void server_drain(struct server *s)
{
	struct conn *c;

	s->is_draining = true;
	close_listeners(s);
	TAILQ_FOREACH (c, &s->conns, link)
		conn_drain(c);
}

bool server_is_drained(const struct server *s)
{
	const struct conn *c;

	TAILQ_FOREACH (c, &s->conns, link)
		if (!conn_is_drained(c))
			return false;
	return true;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct server *s = handle->data;

	s->handles--;
	finish_close(s);
}

void server_close(struct server *s, void (*on_closed)(void *ctx), void *ctx)
{
	struct conn *c;

	s->is_closing = s->is_draining = true;
	s->on_closed = on_closed;
	s->ctx = ctx;
	close_listeners(s);
	uv_close((uv_handle_t *)&s->timer, on_handle_closed);
	uv_close((uv_handle_t *)&s->idle, on_handle_closed);
	while ((c = TAILQ_FIRST(&s->conns)) != NULL) {
		conn_close(c);
		conn_serve(c);
	}
}
