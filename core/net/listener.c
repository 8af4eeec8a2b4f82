#include "listener.h"

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

static void on_connection(uv_stream_t *stream, int status)
{
	struct listener *l = stream->data;
	struct server *s = l->server;

	if (status < 0) {
		log_warn("cannot accept a connection: %s", uv_strerror(status));
		return;
	}
	s->accepted++;
	conn_accept(s, stream, s->conn_count >= s->config.connections_max);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct listener *l = handle->data;
	struct server *s = l->server;

	mem_free(l);
	server_handle_closed(s);
}

void listener_close(struct listener *l)
{
	if (!uv_is_closing((uv_handle_t *)&l->handle))
		uv_close((uv_handle_t *)&l->handle, on_handle_closed);
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

static int resolve(struct server *s, const char *host, const char *port,
		   struct sockaddr_storage *out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	uv_getaddrinfo_t req;

	/* Without a callback it blocks, which is allowed before the start. */
	int rc = uv_getaddrinfo(s->loop, &req, NULL, host, port, &hints);

	if (rc < 0)
		return rc;
	memcpy(out, req.addrinfo->ai_addr, req.addrinfo->ai_addrlen);
	uv_freeaddrinfo(req.addrinfo);
	return TIDE_OK;
}

static void name_bound(struct listener *l, char bound[SERVER_ADDRESS_MAX])
{
	struct sockaddr_storage addr;
	int len = sizeof(addr);
	char host[INET6_ADDRSTRLEN] = "?";

	uv_tcp_getsockname(&l->handle.tcp, (struct sockaddr *)&addr, &len);
	if (addr.ss_family == AF_INET6) {
		uv_ip6_name((struct sockaddr_in6 *)&addr, host, sizeof(host));
		snprintf(bound, SERVER_ADDRESS_MAX, "[%s]:%d", host,
			 ntohs(((struct sockaddr_in6 *)&addr)->sin6_port));
	} else {
		uv_ip4_name((struct sockaddr_in *)&addr, host, sizeof(host));
		snprintf(bound, SERVER_ADDRESS_MAX, "%s:%d", host,
			 ntohs(((struct sockaddr_in *)&addr)->sin_port));
	}
}

static int bind_tcp(struct listener *l, const char *address, struct error *err)
{
	struct sockaddr_storage addr;
	char host[128], port[8];
	int rc;

	if (split(address, host, sizeof(host), port, sizeof(port)) < 0)
		return error_set(err, TIDE_ESYNTAX,
				 "'%s' is no address: wanted is HOST:PORT, [IPv6]:PORT "
				 "or unix:PATH",
				 address);
	rc = resolve(l->server, host, port, &addr);
	if (rc < 0)
		return error_set(err, rc, "cannot resolve '%s': %s", host,
				 uv_strerror(rc));
	rc = uv_tcp_bind(&l->handle.tcp, (struct sockaddr *)&addr, 0);
	if (rc < 0)
		return error_set(err, rc, "cannot listen on %s: %s", address,
				 uv_strerror(rc));
	return TIDE_OK;
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

static int bind_unix(struct listener *l, const char *path, struct error *err)
{
	struct sockaddr_un addr;
	int rc;

	if (path[0] == '\0' || strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, TIDE_ESYNTAX,
				 "unix:%s: wanted is a path of 1-%zu bytes", path,
				 sizeof(addr.sun_path) - 1);
	remove_stale(path);
	rc = uv_pipe_bind(&l->handle.pipe, path);
	if (rc < 0)
		return error_set(err, rc, "cannot listen on unix:%s: %s", path,
				 uv_strerror(rc));
	return TIDE_OK;
}

int listener_open(struct server *s, const char *address, char bound[SERVER_ADDRESS_MAX],
		  struct error *err)
{
	struct listener *l = mem_zalloc(sizeof(*l));
	bool is_unix = strncmp(address, "unix:", 5) == 0;
	int rc;

	l->server = s;
	if (is_unix)
		uv_pipe_init(s->loop, &l->handle.pipe, 0);
	else
		uv_tcp_init(s->loop, &l->handle.tcp);
	l->handle.stream.data = l;
	l->next = s->listeners;
	s->listeners = l;
	s->handles++;
	rc = is_unix ? bind_unix(l, address + 5, err) : bind_tcp(l, address, err);
	if (rc < 0)
		return rc;
	rc = uv_listen(&l->handle.stream, BACKLOG, on_connection);
	if (rc < 0)
		return error_set(err, rc, "cannot listen on %s: %s", address,
				 uv_strerror(rc));
	if (is_unix)
		snprintf(bound, SERVER_ADDRESS_MAX, "%s", address);
	else
		name_bound(l, bound);
	return TIDE_OK;
}
