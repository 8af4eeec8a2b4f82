/* server.h: the network side of the broker: listeners and connections.
 *
 * Connections that have something to send, to resume or to close queue up, and
 * are served once at the end of a loop turn (server_turn), so that what a turn
 * writes to a connection leaves in one system call. */
#pragma once

#include <sys/queue.h>
#include <uv.h>

#include "proto/protocol.h"
#include "session/service_net.h"
#include "tls/tls.h"

struct conn;
struct front;
TAILQ_HEAD(conn_list, conn);

/* The bytes that one read takes at most; a line that the read before cut off goes
 * before it in the same buffer. */
#define SERVER_READ_BYTES ((size_t)256 << 10)
#define SERVER_SOCKET_MODE 0600 /* the owner alone */

#define SERVER_TICK_MS 1000 /* between two looks at all connections */

#define SERVER_HTTP_HOSTS_MAX 16

struct server_config {
	unsigned connections_max;
	size_t payload_max;
	/* Above the first, a connection gets no deliveries and is not read, until its
	 * output is at the second. */
	size_t output_high_bytes;
	size_t output_low_bytes;
	/* 0: never. */
	int64_t idle_timeout_ms; /* close a connection that sends nothing for so long */
	size_t unfinished_max_bytes; /* of lines whose rest has not come, of all
					connections */
	int64_t write_timeout_ms; /* and one that reads none of its output for so long */
	unsigned socket_mode;     /* of Unix sockets */
	const char
		*socket_group; /* that they belong to, by its name; NULL: the process's */
	/* Names that HTTP may be asked by while nobody must log in. */
	const char *http_hosts[SERVER_HTTP_HOSTS_MAX];
	unsigned http_host_count;
	/* Whose pages may ask besides its own: see http_config. */
	const char *http_origins[SERVER_HTTP_HOSTS_MAX];
	unsigned http_origin_count;
	int64_t http_timeout_ms; /* for a request to come */
	struct tls_files tls;    /* of listeners with TLS */
	enum tls_client tls_client;
	bool is_tls_user; /* see session_peer */
	int64_t handshake_timeout_ms;
	/* Of connections that must log in and have not: conn.c. */
	int64_t login_timeout_ms; /* 0: never */
	unsigned strangers_max;   /* 0: a quarter of connections_max */
	/* Of a broker that others may reach. */
	unsigned node;
	const char *at;    /* where; NULL: nowhere. It outlives the server */
	bool is_exposed;   /* others reach a listener, and clients must log in for that */
	bool is_anonymous; /* whoever comes may do everything, also from elsewhere */
};

void server_config_init(struct server_config *c);
/* Lower connections_max to what the limit of open files allows, without those that the
 * broker needs for itself: call it when it has opened what it keeps open.
 *
 * @param each  descriptors of a connection */
TIDE_MUST_USE int server_limit_connections(struct server_config *c, unsigned each,
					   struct error *err);
/* Connections over the limit that are being told so; further ones are closed at once. */
#define SERVER_REFUSED_MAX 8

union server_socket {
	uv_handle_t handle;
	uv_stream_t stream;
	uv_tcp_t tcp;
	uv_pipe_t pipe;
};

struct server {
	uv_loop_t *loop;
	struct service *service;
	struct net_figures *figures; /* of the service */
	struct server_config config;
	struct conn_list conns;
	struct conn_list due;
	struct conn_list unfinished; /* that owe the rest of a line; the oldest first */
	size_t unfinished_bytes;
	struct conn_list strangers; /* stranger.h; the oldest first */
	unsigned stranger_count;
	unsigned conn_count;
	struct listener *listeners; /* those that are open */
	struct pool chunks;
	char *read_buf;
	struct tls_context *tls; /* for new connections; NULL: no listener has TLS */
	char *cipher_buf;        /* likewise; SERVER_READ_BYTES */
	uint64_t shaken_ns;      /* what handshakes took of this turn */
	uv_timer_t timer;        /* heartbeats, idleness, lingering */
	int64_t tick_ms; /* when it ran, and its work waits for the sockets; 0: none */
	uv_idle_t idle; /* active while connections or the tick are due: the loop does not
			   wait */
	struct http_engine *http; /* NULL: nobody listens for HTTP */
	/* Towards the owner of each cell of the store. NULL, or a cell without one: it is
	 * this broker's, which serves it. */
	struct front **fronts;
	unsigned cells; /* 1: the store is not split */
	bool is_owner;  /* of a cell */
	struct net_member self;
	unsigned handles; /* listeners, timer and idle, not yet closed; and `http` */
	bool is_draining;
	bool is_closing;
	void (*on_closed)(void *ctx);
	void *ctx;
};

struct server *server_create(uv_loop_t *loop, struct service *service,
			     const struct server_config *config);
/* Clients are passed through to the owner of the store (front.h), until this broker owns
 * it. Before the first server_listen. */
void server_be_front(struct server *s);
/* This broker owns the store, or a cell of it: serve clients, and let other brokers in.
 */
void server_be_owner(struct server *s);

/* "HOST:PORT", "[IPv6]:PORT", either after "tls:", or "unix:PATH". Port 0 takes a free
 * one. `bound` receives what it listens on, in the same form. */
#define SERVER_ADDRESS_MAX 256
TIDE_MUST_USE int server_listen(struct server *s, const char *address,
				char bound[SERVER_ADDRESS_MAX], struct error *err);
/* The same for HTTP. */
TIDE_MUST_USE int server_listen_http(struct server *s, const char *address,
				     char bound[SERVER_ADDRESS_MAX], struct error *err);

/* Where other brokers come in. They are refused until this one owns the store. */
TIDE_MUST_USE int server_listen_gate(struct server *s, const char *address,
				     char bound[SERVER_ADDRESS_MAX], struct error *err);

/* Can server_listen understand the address, and has it the files for TLS? May block. */
TIDE_MUST_USE int server_check_address(uv_loop_t *loop, const char *address,
				       const struct server_config *config,
				       struct error *err);
/* Read the files for TLS again, for new connections. The log tells what came of it. */
void server_reload_tls(struct server *s);

/* Others than this machine can reach the address, which server_check_address has taken;
 * it may block. */
bool server_is_exposed(uv_loop_t *loop, const char *address);

/* Towards the owner of the cell; NULL: this broker serves it. */
static inline struct front *server_front(const struct server *s, unsigned cell)
{
	return s->fronts ? s->fronts[cell] : NULL;
}
/* What a client that says nothing of it gets. */
unsigned server_default_cell(const struct server *s);

/* The end of a loop turn. */
void server_turn(struct server *s);

/* Accept no connection, read nothing more, tell all clients. */
void server_drain(struct server *s);
/* Every answer has been sent. */
bool server_is_drained(const struct server *s);
/* Close every connection and listener, free the server, then on_closed. */
void server_close(struct server *s, void (*on_closed)(void *ctx), void *ctx);

/* Close those that owe the rest of a line for longest, until the others fit the limit. */
void server_limit_unfinished(struct server *s);
/* Have the connection served at the end of the turn. */
void server_due(struct server *s, struct conn *c);
void server_conn_gone(struct server *s);
/* One that `handles` counts is closed. */
void server_part_gone(struct server *s);
/* Clients may speak HTTP. */
void server_begin_http(struct server *s);
/* Has this turn time for a handshake? */
bool server_may_shake(const struct server *s);
void server_shook(struct server *s, uint64_t took_ns);
void server_init_socket(struct server *s, union server_socket *socket, bool is_unix);
void server_format_address(const struct sockaddr_storage *addr,
			   char out[SERVER_ADDRESS_MAX]);
/* Is the address one of this machine? */
bool server_is_loopback(const struct sockaddr_storage *addr);
