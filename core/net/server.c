#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/log.h"
#include "http/http.h"
#include "conn.h"
#include "front.h"
#include "stranger.h"

#define BACKLOG 4096
#define HOST_MAX 128
/* Of a turn, for handshakes. One takes up to some milliseconds, and thousands may come.
 */
#define SHAKE_NS UINT64_C(5000000)
/* Descriptors that are no client's: for Redis to be started and connected to again, for
 * specs, rules and listeners. A few go to clients who are being told that they cannot be
 * served. */
#define DESCRIPTORS_SPARE 24

/* A socket that connections come from: TCP (IPv4, IPv6) or Unix. */
struct listener {
	struct listener *next;
	struct server *server;
	union server_socket socket;
	struct conn_kind kind;
};

void server_config_init(struct server_config *c)
{
	*c = (struct server_config){
		.connections_max = 20000,
		.payload_max = PROTOCOL_PAYLOAD_MAX_DEFAULT,
		.output_high_bytes = (size_t)1 << 20,
		.output_low_bytes = (size_t)256 << 10,
		.unfinished_max_bytes = (size_t)64 << 20,
		.write_timeout_ms = 5 * 60 * 1000,
		.socket_mode = SERVER_SOCKET_MODE,
		.handshake_timeout_ms = 10 * 1000,
		.login_timeout_ms = 10 * 1000,
		.http_timeout_ms = 20 * 1000,
	};
}

/* The process may have stood still, and what its peers have sent meanwhile lies in its
 * sockets: nobody is judged before that has been read. */
static void on_tick(uv_timer_t *timer)
{
	struct server *s = timer->data;

	s->tick_ms = (int64_t)uv_now(s->loop);
}

static void tick_all(struct server *s)
{
	int64_t now_ms = s->tick_ms;
	struct conn *c, *next;

	s->tick_ms = 0;
	for (c = TAILQ_FIRST(&s->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		conn_tick(c, now_ms);
	}
	stranger_tick(s, now_ms);
	for (unsigned i = 0; i < s->cells; i++)
		front_tick(server_front(s, i));
}

static unsigned count_descriptors(unsigned max)
{
	unsigned count = 0;

	for (unsigned fd = 0; fd < max; fd++)
		count += fcntl((int)fd, F_GETFD) >= 0;
	return count;
}

/* Descriptors that are open now, at the start, have low numbers. */
#define DESCRIPTORS_LOOK 1024

int server_limit_connections(struct server_config *c, unsigned each, struct error *err)
{
	struct rlimit limit;
	unsigned reserved = DESCRIPTORS_SPARE + count_descriptors(DESCRIPTORS_LOOK);

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return TIDE_OK;
	if (limit.rlim_cur >= (rlim_t)c->connections_max * each + reserved)
		return TIDE_OK;
	if (limit.rlim_cur < reserved + each)
		return error_set(err, UV_EMFILE,
				 "the limit of %llu open files is too low: the broker "
				 "needs %u for itself; raise it (ulimit -n)",
				 (unsigned long long)limit.rlim_cur, reserved);
	c->connections_max = (unsigned)(limit.rlim_cur - reserved) / each;
	return TIDE_OK;
}

struct server *server_create(uv_loop_t *loop, struct service *service,
			     const struct server_config *config)
{
	struct server *s = mem_zalloc(sizeof(*s));

	s->loop = loop;
	s->service = service;
	s->figures = service_net_figures(service);
	s->figures->limit = config->connections_max;
	s->config = *config;
	s->cells = 1;
	s->is_owner = true;
	TAILQ_INIT(&s->conns);
	TAILQ_INIT(&s->due);
	TAILQ_INIT(&s->unfinished);
	TAILQ_INIT(&s->strangers);
	if (!s->config.strangers_max)
		s->config.strangers_max = (config->connections_max + 3) / 4;
	out_pool_init(&s->chunks);
	s->read_buf = mem_alloc(PROTOCOL_UNREAD_MAX + SERVER_READ_BYTES);
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	uv_idle_init(loop, &s->idle);
	s->idle.data = s;
	s->handles = 2;
	uv_timer_start(&s->timer, on_tick, SERVER_TICK_MS, SERVER_TICK_MS);
	s->self = (struct net_member){ .node = config->node,
				       .at = config->at ? config->at : "",
				       .release = TIDE_VERSION };
	service_net_join(service, &s->self);
	return s;
}

void server_init_socket(struct server *s, union server_socket *socket, bool is_unix)
{
	if (is_unix)
		uv_pipe_init(s->loop, &socket->pipe, 0);
	else
		uv_tcp_init(s->loop, &socket->tcp);
}

void server_format_address(const struct sockaddr_storage *addr,
			   char out[SERVER_ADDRESS_MAX])
{
	bool is_v6 = addr->ss_family == AF_INET6;
	unsigned port = is_v6 ? ((const struct sockaddr_in6 *)addr)->sin6_port
			      : ((const struct sockaddr_in *)addr)->sin_port;
	char host[INET6_ADDRSTRLEN] = "?";

	uv_ip_name((const struct sockaddr *)addr, host, sizeof(host));
	snprintf(out, SERVER_ADDRESS_MAX, is_v6 ? "[%s]:%u" : "%s:%u", host,
		 ntohs((uint16_t)port));
}

bool server_is_loopback(const struct sockaddr_storage *addr)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;
	const struct in_addr *v4 = &((const struct sockaddr_in *)addr)->sin_addr;

	if (addr->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(v6) ||
		       (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
	return addr->ss_family == AF_INET && ntohl(v4->s_addr) >> 24 == 127;
}

/* "HOST:PORT" or "[HOST]:PORT"; an empty host or * is every address. */
static bool split(const char *address, char host_out[HOST_MAX], const char **port)
{
	const char *colon = strrchr(address, ':');
	struct slice host = { address, colon ? (size_t)(colon - address) : 0 };
	uint64_t n;

	if (!colon || !slice_to_uint(slice_from(colon + 1), 65535, &n))
		return false;
	if (host.len >= 2 && address[0] == '[' && colon[-1] == ']')
		host = (struct slice){ address + 1, host.len - 2 };
	else if (memchr(address, ':', host.len))
		return false;
	if (host.len >= HOST_MAX)
		return false;
	if (host.len == 0 || slice_is(host, "*"))
		host = SLICE("0.0.0.0");
	snprintf(host_out, HOST_MAX, "%" SLICE_FMT, SLICE_ARG(host));
	*port = colon + 1;
	return true;
}

static int resolve(uv_loop_t *loop, const char *address, struct sockaddr_storage *out,
		   struct error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	char host[HOST_MAX];
	const char *port;
	uv_getaddrinfo_t req;
	int rc;

	if (!split(address, host, &port))
		return error_set(err, TIDE_ESYNTAX,
				 "'%s' is not an address: expected HOST:PORT, "
				 "[IPv6]:PORT, tls:HOST:PORT or unix:PATH",
				 address);
	/* Without a callback it blocks, which is allowed before the start. */
	rc = uv_getaddrinfo(loop, &req, NULL, host, port, &hints);
	if (rc < 0)
		return error_set(err, rc, "cannot resolve '%s': %s", host,
				 uv_strerror(rc));
	memcpy(out, req.addrinfo->ai_addr, req.addrinfo->ai_addrlen);
	uv_freeaddrinfo(req.addrinfo);
	return TIDE_OK;
}

/* Remove the socket of a killed broker, which has no listener. */
static void remove_stale(const struct sockaddr_un *addr)
{
	struct stat st;
	int fd;

	if (lstat(addr->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* Any other failure may come from a broker that is only busy. */
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 &&
	    errno == ECONNREFUSED)
		unlink(addr->sun_path);
	close(fd);
}

static int read_path(const char *path, struct sockaddr_un *out, struct error *err)
{
	int len;

	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	len = snprintf(out->sun_path, sizeof(out->sun_path), "%s", path);
	if (len <= 0 || (size_t)len >= sizeof(out->sun_path))
		return error_set(err, TIDE_ESYNTAX,
				 "unix:%s: expected a path of 1-%zu bytes", path,
				 sizeof(out->sun_path) - 1);
	return TIDE_OK;
}

static int prepare_path(const char *path, struct error *err)
{
	struct sockaddr_un addr;
	int rc = read_path(path, &addr, err);

	if (rc == TIDE_OK)
		remove_stale(&addr);
	return rc;
}

/* The path of a Unix socket, or NULL. */
static const char *unix_path(const char *address)
{
	return strncmp(address, "unix:", 5) == 0 ? address + 5 : NULL;
}

/* The address behind "tls:", or NULL. */
static const char *tls_address(const char *address)
{
	return strncmp(address, "tls:", 4) == 0 ? address + 4 : NULL;
}

static int read_tls(const struct server_config *config, struct tls_context **out,
		    struct error *err)
{
	struct error why;
	int rc;

	if (!config->tls.cert || !config->tls.key)
		return error_set(err, TIDE_ESYNTAX,
				 "an address with tls: needs --tls-cert and --tls-key");
	if (config->tls_client != TLS_CLIENT_NONE && !config->tls.ca)
		return error_set(err, TIDE_ESYNTAX,
				 "--tls-client needs --tls-ca, to verify clients with");
	rc = tls_context_create_server(&config->tls, config->tls_client, out, &why);
	return rc < 0 ? error_set(err, rc, "TLS: %s", why.text) : rc;
}

static int check_tls(const struct server_config *config, struct error *err)
{
	struct tls_context *tls = NULL;
	int rc = read_tls(config, &tls, err);

	tls_context_unref(tls);
	return rc;
}

int server_check_address(uv_loop_t *loop, const char *address,
			 const struct server_config *config, struct error *err)
{
	const char *path = unix_path(address), *inner = tls_address(address);
	struct sockaddr_storage addr;
	struct sockaddr_un unix_addr;
	int rc = path ? read_path(path, &unix_addr, err)
		      : resolve(loop, inner ? inner : address, &addr, err);

	return rc == TIDE_OK && inner ? check_tls(config, err) : rc;
}

static void use_certificate(const struct server *s, const char *what)
{
	struct buf text = { 0 };
	uv_timeval64_t now;

	uv_gettimeofday(&now);
	s->figures->tls_until_unix_ms = tls_context_until_unix_ms(s->tls);
	tls_context_describe(s->tls, &text);
	log_info("TLS: %s the certificate of %s", what, buf_cstr(&text));
	if (tls_context_is_expired(s->tls, now.tv_sec * 1000))
		log_warn("TLS: the certificate is not valid now: clients will refuse it");
	buf_deinit(&text);
}

static int begin_tls(struct server *s, struct error *err)
{
	int rc = s->tls ? TIDE_OK : read_tls(&s->config, &s->tls, err);

	if (rc < 0 || s->cipher_buf)
		return rc;
	s->cipher_buf = mem_alloc(SERVER_READ_BYTES);
	use_certificate(s, "using");
	return TIDE_OK;
}

void server_reload_tls(struct server *s)
{
	struct tls_context *fresh = NULL;
	struct error err;

	if (!s->tls)
		return;
	if (read_tls(&s->config, &fresh, &err) < 0) {
		log_error("%s; the old certificate stays in use", err.text);
		return;
	}
	tls_context_unref(s->tls);
	s->tls = fresh;
	use_certificate(s, "now using");
}

bool server_may_shake(const struct server *s)
{
	return s->shaken_ns < SHAKE_NS;
}

void server_shook(struct server *s, uint64_t took_ns)
{
	s->shaken_ns += took_ns;
}

bool server_is_exposed(uv_loop_t *loop, const char *address)
{
	const char *inner = tls_address(address);
	struct sockaddr_storage addr;
	struct error ignored;

	return !unix_path(address) &&
	       (resolve(loop, inner ? inner : address, &addr, &ignored) < 0 ||
		!server_is_loopback(&addr));
}

/* Set the owner of a socket before it listens: until then clients cannot connect. */
static int set_owner(const struct server *s, const char *path, struct error *err)
{
	const char *name = s->config.socket_group;
	const struct group *group = name ? getgrnam(name) : NULL;

	if (name && !group)
		return error_set(err, TIDE_ENOTFOUND,
				 "unix:%s: there is no group '%s' (--socket-group)", path,
				 name);
	if (group && chown(path, (uid_t)-1, group->gr_gid) < 0)
		return error_set(err, -errno,
				 "unix:%s: cannot give it to the group '%s': %s", path,
				 name, strerror(errno));
	if (chmod(path, s->config.socket_mode) < 0)
		return error_set(err, -errno, "unix:%s: cannot set its mode: %s", path,
				 strerror(errno));
	return TIDE_OK;
}

static void on_connection(uv_stream_t *stream, int status)
{
	struct listener *l = stream->data;

	if (status < 0)
		log_warn("cannot accept a connection: %s", uv_strerror(status));
	else
		conn_accept(l->server, stream, l->kind);
}

static int bind_to(struct server *s, const char *address, struct conn_kind kind,
		   char bound[SERVER_ADDRESS_MAX], struct error *err)
{
	const char *path = unix_path(address), *inner = tls_address(address);
	bool is_unix = path != NULL;
	struct sockaddr_storage addr;
	char found[SERVER_ADDRESS_MAX];
	int len = sizeof(addr);
	int rc = is_unix ? prepare_path(path, err)
			 : resolve(s->loop, inner ? inner : address, &addr, err);
	struct listener *l;

	if (rc == TIDE_OK && inner)
		rc = begin_tls(s, err);
	if (rc < 0)
		return rc;
	l = mem_zalloc(sizeof(*l));
	l->server = s;
	l->kind = kind;
	l->kind.is_tls = inner != NULL;
	l->next = s->listeners;
	s->listeners = l;
	s->handles++;
	server_init_socket(s, &l->socket, is_unix);
	l->socket.stream.data = l;
	rc = is_unix ? uv_pipe_bind(&l->socket.pipe, path)
		     : uv_tcp_bind(&l->socket.tcp, (struct sockaddr *)&addr, 0);
	if (rc == 0 && is_unix && set_owner(s, path, err) < 0)
		return err->code;
	/* Another one's address is found out here too. */
	if (rc == 0 && !is_unix)
		rc = uv_tcp_getsockname(&l->socket.tcp, (struct sockaddr *)&addr, &len);
	if (rc < 0)
		return error_set(err, rc, "cannot listen on %s: %s", address,
				 uv_strerror(rc));
	snprintf(bound, SERVER_ADDRESS_MAX, "%s", address);
	if (!is_unix) {
		server_format_address(&addr, found);
		snprintf(bound, SERVER_ADDRESS_MAX, "%s%.200s", inner ? "tls:" : "",
			 found);
	}
	return TIDE_OK;
}

static int listen_on(struct server *s, const char *address, struct conn_kind kind,
		     char bound[SERVER_ADDRESS_MAX], struct error *err)
{
	int rc = bind_to(s, address, kind, bound, err);

	if (rc < 0)
		return rc;
	rc = uv_listen(&s->listeners->socket.stream, BACKLOG, on_connection);
	return rc < 0 ? error_set(err, rc, "cannot listen on %s: %s", address,
				  uv_strerror(rc))
		      : TIDE_OK;
}

int server_listen_gate(struct server *s, const char *address,
		       char bound[SERVER_ADDRESS_MAX], struct error *err)
{
	return listen_on(s, address, (struct conn_kind){ .is_gate = true }, bound, err);
}

void server_be_front(struct server *s)
{
	service_net_part(s->service, &s->self);
	s->is_owner = false;
	s->cells = service_net_cells(s->service);
	s->fronts = mem_zalloc(s->cells * sizeof(*s->fronts));
	for (unsigned i = 0; i < s->cells; i++)
		s->fronts[i] = front_create(s, i);
}

unsigned server_default_cell(const struct server *s)
{
	unsigned own = s->cells > 1 && s->is_owner ? service_net_cell(s->service) : 0;

	return own < s->cells ? own : 0;
}

static void end_front(struct server *s, unsigned cell)
{
	struct front *f = server_front(s, cell);

	if (!f)
		return;
	s->fronts[cell] = NULL;
	front_end(f);
}

void server_be_owner(struct server *s)
{
	s->is_owner = true;
	s->self.cell = server_default_cell(s);
	end_front(s, s->self.cell);
	service_net_join(s->service, &s->self);
	/* The owners of the other cells are told. */
	for (unsigned i = 0; i < s->cells; i++)
		if (server_front(s, i))
			front_announce(s->fronts[i]);
}

int server_listen(struct server *s, const char *address, char bound[SERVER_ADDRESS_MAX],
		  struct error *err)
{
	return listen_on(s, address, (struct conn_kind){ 0 }, bound, err);
}

void server_begin_http(struct server *s)
{
	const struct http_config config = {
		.payload_max = s->config.payload_max,
		.request_timeout_ms = s->config.http_timeout_ms,
		.hosts = s->config.http_hosts,
		.host_count = s->config.http_host_count,
		.origins = s->config.http_origins,
		.origin_count = s->config.http_origin_count,
	};

	if (!s->http)
		s->http = http_create(s->loop, &config);
}

int server_listen_http(struct server *s, const char *address,
		       char bound[SERVER_ADDRESS_MAX], struct error *err)
{
	server_begin_http(s);
	return listen_on(s, address, (struct conn_kind){ .is_http = true }, bound, err);
}

void server_limit_unfinished(struct server *s)
{
	while (s->unfinished_bytes > s->config.unfinished_max_bytes)
		conn_give_up_input(TAILQ_FIRST(&s->unfinished));
}

void server_due(struct server *s, struct conn *c)
{
	if (c->is_due || c->is_closed)
		return;
	c->is_due = true;
	TAILQ_INSERT_TAIL(&s->due, c, due_link);
}

/* An idle handle keeps the loop from waiting; the turn does the work. */
static void on_idle(uv_idle_t *handle)
{
}

void server_turn(struct server *s)
{
	struct conn *last = TAILQ_LAST(&s->due, conn_list);
	struct conn *c;
	bool is_last;

	s->shaken_ns = 0;
	if (s->tick_ms && s->tick_ms <= service_net_heard_ms(s->service))
		tick_all(s);
	for (unsigned i = 0; i < s->cells; i++)
		front_turn(server_front(s, i));
	/* Connections that are due again because of this pass wait for the next one. */
	while ((c = TAILQ_FIRST(&s->due)) != NULL) {
		is_last = c == last;
		c->is_due = false;
		TAILQ_REMOVE(&s->due, c, due_link);
		conn_serve(c);
		if (is_last)
			break;
	}
	if ((!TAILQ_EMPTY(&s->due) || s->tick_ms) && !s->is_closing)
		uv_idle_start(&s->idle, on_idle);
	else
		uv_idle_stop(&s->idle);
}

static void finish_close(struct server *s);

void server_part_gone(struct server *s)
{
	s->handles--;
	finish_close(s);
}

static void on_http_closed(void *ctx)
{
	server_part_gone(ctx);
}

/* The last connection of HTTP has ended. */
static void close_http(struct server *s)
{
	struct http_engine *e = s->http;

	s->http = NULL;
	s->handles++;
	http_engine_close(e, on_http_closed, s);
}

static void finish_close(struct server *s)
{
	void (*on_closed)(void *ctx) = s->on_closed;
	void *ctx = s->ctx;

	if (!s->is_closing || s->conn_count > 0)
		return;
	if (s->http)
		close_http(s);
	if (s->handles > 0)
		return;
	pool_deinit(&s->chunks);
	mem_free(s->read_buf);
	mem_free(s->fronts);
	mem_free(s->cipher_buf);
	tls_context_unref(s->tls);
	mem_free(s);
	on_closed(ctx);
}

static void on_handle_closed(uv_handle_t *handle)
{
	server_part_gone(handle->data);
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct listener *l = handle->data;

	handle->data = l->server;
	on_handle_closed(handle);
	mem_free(l);
}

static void close_listeners(struct server *s)
{
	struct listener *l;

	while ((l = s->listeners) != NULL) {
		s->listeners = l->next;
		uv_close(&l->socket.handle, on_listener_closed);
	}
}

void server_drain(struct server *s)
{
	struct conn *c;

	s->is_draining = true;
	close_listeners(s);
	for (unsigned i = 0; i < s->cells; i++)
		if (server_front(s, i))
			front_drain(s->fronts[i]);
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

void server_conn_gone(struct server *s)
{
	s->conn_count--;
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
	for (unsigned i = 0; i < s->cells; i++)
		end_front(s, i);
	service_net_part(s->service, &s->self);
}
