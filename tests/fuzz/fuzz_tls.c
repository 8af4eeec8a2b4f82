/* A client and a listener with TLS, over a socket: the code that serves connections.
 *
 * The first byte says how it begins: with a handshake, with a ClientHello that the input
 * has changed, or with no TLS at all. Then the input is what the client says; bytes that
 * are in no UTF-8 text say what happens in between. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "certs.h"
#include "net/conn.h"
#include "net/server.h"
#include "proto/peer.h"
#include "tls/tls.h"

#define TURNS_MAX 2000

enum {
	OP_TURN = 0xff,
	OP_RAW = 0xfe,    /* what follows goes past TLS, or no longer */
	OP_FLIP = 0xfd,   /* a bit of what is to be sent next */
	OP_FINISH = 0xfc, /* TLS */
	OP_SHUT = 0xfb,   /* the socket */
	OP_BYTES = 0xfa,  /* it is sent byte by byte, or no longer */
	OP_DEAF = 0xf9,   /* the client does not read, or does again */
	OP_FIRST = OP_DEAF
};

enum { BEGIN_TLS, BEGIN_HELLO, BEGIN_RAW };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rig rig;
static struct server *server;
static struct tls_context *context; /* of the client */
static char bound[SERVER_ADDRESS_MAX];

struct client {
	int fd;
	struct tls *tls;
	bool is_raw, is_flipped, is_bytewise, is_deaf;
};

static void hear(struct client *c)
{
	char cipher[20000], plain[20000];
	ssize_t n;

	if (c->is_deaf)
		return;
	while ((n = recv(c->fd, cipher, sizeof(cipher), MSG_DONTWAIT)) > 0) {
		tls_feed(c->tls, cipher, (size_t)n);
		while (tls_read(c->tls, plain, sizeof(plain)) > 0)
			;
		tls_keep(c->tls);
	}
}

static void turn(struct client *c)
{
	for (unsigned i = 0; i < 4; i++)
		uv_run(&rig.loop, UV_RUN_NOWAIT);
	hear(c);
}

static void send_all(struct client *c, const char *data, size_t len)
{
	for (unsigned tries = 0; len > 0 && tries < TURNS_MAX; tries++) {
		size_t piece = c->is_bytewise ? 1 : len;
		ssize_t n = send(c->fd, data, piece, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
		turn(c);
	}
}

static void push(struct client *c)
{
	struct buf moving = *tls_out(c->tls);

	*tls_out(c->tls) = (struct buf){ 0 };
	if (c->is_flipped && buf_len(&moving) > 0)
		moving.data[moving.start + buf_len(&moving) / 2] ^= 4;
	c->is_flipped = c->is_flipped && buf_len(&moving) == 0;
	if (buf_len(&moving) > 0)
		send_all(c, buf_slice(&moving).data, buf_len(&moving));
	buf_deinit(&moving);
}

static void say(struct client *c, const uint8_t *data, size_t size)
{
	struct iovec vec = { (void *)(uintptr_t)data, size };

	if (size == 0)
		return;
	if (c->is_raw)
		send_all(c, (const char *)data, size);
	else if (tls_write(c->tls, &vec, 1, SIZE_MAX) >= 0)
		push(c);
}

static void happen(struct client *c, uint8_t op)
{
	switch (op) {
	case OP_RAW:
		c->is_raw = !c->is_raw;
		break;
	case OP_FLIP:
		c->is_flipped = true;
		break;
	case OP_FINISH:
		tls_finish(c->tls);
		push(c);
		break;
	case OP_SHUT:
		shutdown(c->fd, SHUT_WR);
		break;
	case OP_BYTES:
		c->is_bytewise = !c->is_bytewise;
		break;
	case OP_DEAF:
		c->is_deaf = !c->is_deaf;
		break;
	default:
		turn(c);
		break;
	}
}

static void shake_hands(struct client *c)
{
	for (unsigned i = 0; i < TURNS_MAX && !tls_is_open(c->tls); i++) {
		push(c);
		turn(c);
	}
	push(c);
	if (!tls_is_open(c->tls)) {
		fprintf(stderr, "no handshake: %s\n", tls_error(c->tls));
		abort();
	}
}

/* Pairs of bytes: where a ClientHello is changed, and into what. */
static size_t change_hello(struct client *c, const uint8_t *data, size_t size)
{
	struct buf *hello = tls_out(c->tls);
	size_t at = 0;

	for (; at + 1 < size && data[at] < OP_FIRST; at += 2)
		hello->data[hello->start + data[at] * 2 % buf_len(hello)] =
			(char)data[at + 1];
	push(c);
	return at;
}

static size_t begin(struct client *c, const uint8_t *data, size_t size)
{
	char byte;

	if (size == 0)
		return 0;
	(void)!tls_read(c->tls, &byte, 1);
	switch (data[0] % 3) {
	case BEGIN_TLS:
		shake_hands(c);
		return 1;
	case BEGIN_HELLO:
		return 1 + change_hello(c, data + 1, size - 1);
	default:
		buf_clear(tls_out(c->tls));
		c->is_raw = true;
		return 1;
	}
}

/* libFuzzer's timer may interrupt it: it goes on then, and is asked about. */
static bool connect_to(int fd, const struct sockaddr_in *addr)
{
	while (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0) {
		if (errno == EISCONN)
			return true;
		if (errno != EINTR && errno != EALREADY)
			return false;
	}
	return true;
}

static void open_client(struct client *c)
{
	/* No port is kept busy by a connection that is over. */
	const struct linger linger = { .l_onoff = 1 };
	struct sockaddr_in addr = { .sin_family = AF_INET };

	*c = (struct client){ .fd = socket(AF_INET, SOCK_STREAM, 0) };
	addr.sin_port = htons((uint16_t)atoi(strrchr(bound, ':') + 1));
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (c->fd < 0 || !connect_to(c->fd, &addr)) {
		perror("fuzz_tls: connect");
		abort();
	}
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	c->tls = tls_create_client(context, "localhost");
}

static void close_client(struct client *c)
{
	close(c->fd);
	for (unsigned i = 0; server->conn_count > 0; i++) {
		uv_run(&rig.loop, UV_RUN_NOWAIT);
		if (i == TURNS_MAX) {
			fprintf(stderr, "the connection does not end\n");
			abort();
		}
	}
	tls_destroy(c->tls);
}

static void serve_turn(void *ctx)
{
	server_turn(server);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct broker_config config;
	struct server_config net;
	struct tls_files files = { 0 };
	struct error err;

	rig_config_init(&config);
	config.window_messages = 64;
	config.memory_max_bytes = 2 << 20;
	config.rules_budget_ms = 5000;
	rig_init(&rig, &config);
	log_configure(LOG_NONE, true);
	certs_begin();
	certs_make("server", &(struct cert){ .cn = "localhost", .san = "DNS:localhost" },
		   NULL);
	server_config_init(&net);
	net.payload_max = 100000;
	net.tls = (struct tls_files){ .cert = certs_path("server", ".pem"),
				      .key = certs_path("server", ".key") };
	files.ca = net.tls.cert;
	server = server_create(&rig.loop, rig.service, &net);
	rig.on_turn = serve_turn;
	if (server_listen(server, "tls:127.0.0.1:0", bound, &err) < 0 ||
	    tls_context_create_client(&files, &context, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	certs_end();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct client c;
	size_t from;

	open_client(&c);
	from = begin(&c, data, size);
	for (size_t i = from; i < size; i++) {
		if (data[i] < OP_FIRST)
			continue;
		say(&c, data + from, i - from);
		happen(&c, data[i]);
		from = i + 1;
	}
	say(&c, data + from, from < size ? size - from : 0);
	turn(&c);
	close_client(&c);
	return 0;
}
