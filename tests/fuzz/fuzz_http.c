/* Three connections to the HTTP port, over sockets: the code that serves them.
 *
 * The input is what they send; bytes that are in no UTF-8 text say what happens in
 * between. What the broker says must be answers of HTTP, and their documents JSON. */
#include <arpa/inet.h>
#include <jansson.h>
#include <signal.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/server.h"
#include "proto/peer.h"

#define PEERS 3
#define PAYLOAD_MAX 40000
#define TURNS 6 /* a request may wait for the next one, and its answer for room */
#define TURNS_MAX 20000

enum {
	OP_TURN = 0xff,
	OP_NEXT = 0xfe,  /* connection */
	OP_CLOSE = 0xfd, /* it, and make another */
	OP_SHUT = 0xfc,  /* it says no more */
	OP_BYTES = 0xfb, /* it is sent byte by byte, or no longer */
	OP_DEAF = 0xfa,  /* the client does not read, or does again */
	OP_FIRST = OP_DEAF
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct client {
	int fd;
	struct buf heard;
	bool is_bytewise, is_deaf;
};

static struct rig rig;
static struct server *server; /* of this run */
static char bound[SERVER_ADDRESS_MAX];
static struct client clients[PEERS];

/* ---- what the broker says ---- */

static void refuse(struct slice all, const char *why)
{
	fprintf(stderr, "what the broker said is no answer (%s): %.*s\n", why,
		(int)all.len, all.data);
	abort();
}

struct answer {
	unsigned status;
	uint64_t body_len;
	bool has_length, is_chunked, is_json;
};

/* False: its rest has not come. */
static bool cut_line(struct slice *rest, struct slice *line)
{
	size_t len = slice_find(*rest, '\n');

	if (len == rest->len)
		return false;
	*line = (struct slice){ rest->data, len };
	*rest = slice_skip(*rest, len + 1);
	if (!slice_has_suffix(*line, "\r"))
		refuse(*line, "the end of a line");
	line->len--;
	for (size_t i = 0; i < line->len; i++)
		if ((unsigned char)line->data[i] < ' ' && line->data[i] != '\t')
			refuse(*line, "a control character");
	return true;
}

static bool is_header(struct slice name, const char *wanted)
{
	return name.len == strlen(wanted) &&
	       strncasecmp(name.data, wanted, name.len) == 0;
}

static void read_header(struct answer *a, struct slice line)
{
	struct slice value = line, name = slice_cut(&value, ':');

	if (name.len == 0 || name.len == line.len || !slice_has_prefix(value, " "))
		refuse(line, "a header");
	value = slice_skip(value, 1);
	if (is_header(name, "Transfer-Encoding"))
		a->is_chunked = true;
	if (is_header(name, "Content-Type"))
		a->is_json = slice_has_prefix(value, "application/json");
	if (!is_header(name, "Content-Length"))
		return;
	a->has_length = true;
	if (!slice_to_uint(value, SIZE_MAX / 2, &a->body_len))
		refuse(line, "its length");
}

static bool read_head(struct slice *rest, struct answer *a)
{
	struct slice line;
	uint64_t status;

	*a = (struct answer){ 0 };
	if (!cut_line(rest, &line))
		return false;
	if (line.len < 12 || !slice_has_prefix(line, "HTTP/1.") ||
	    !slice_to_uint((struct slice){ line.data + 9, 3 }, 599, &status))
		refuse(line, "its first line");
	a->status = (unsigned)status;
	for (;;) {
		if (!cut_line(rest, &line))
			return false;
		if (line.len == 0)
			return true;
		read_header(a, line);
	}
}

static bool read_chunks(struct slice *rest)
{
	struct slice line;
	char *end;
	size_t len;

	do {
		if (!cut_line(rest, &line))
			return false;
		/* What follows is no digit: the end of the line. */
		len = strtoul(line.data, &end, 16);
		if (line.len == 0 || end != line.data + line.len)
			refuse(line, "a chunk's length");
		if (len > 0) {
			if (rest->len < len)
				return false;
			*rest = slice_skip(*rest, len);
		}
		if (!cut_line(rest, &line))
			return false;
		if (line.len != 0)
			refuse(line, "a chunk's end");
	} while (len > 0);
	return true;
}

static void check_json(struct slice body)
{
	json_error_t why;
	json_t *j =
		json_loadb(body.data, body.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);

	if (!j)
		refuse(body, why.text);
	json_decref(j);
}

/* One after the other; in a WebSocket they end. */
static void read_answers(struct slice rest)
{
	struct answer a;

	while (rest.len > 0) {
		if (!read_head(&rest, &a) || a.status == 101)
			return;
		if (a.status < 200)
			continue;
		if (a.is_chunked && a.has_length)
			refuse(rest, "two lengths");
		if (a.status == 304)
			continue;
		/* To HEAD there is no body. */
		if (rest.len == 0 || slice_has_prefix(rest, "HTTP/1."))
			continue;
		if (a.is_chunked && !read_chunks(&rest))
			return;
		if (a.is_chunked)
			continue;
		if (rest.len < a.body_len || !a.has_length)
			return;
		if (a.is_json && a.body_len > 0)
			check_json((struct slice){ rest.data, a.body_len });
		rest = slice_skip(rest, a.body_len);
	}
}

/* ---- the clients ---- */

static void hear(struct client *c)
{
	char bytes[20000];
	ssize_t n;

	if (c->is_deaf)
		return;
	while ((n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		buf_append(&c->heard, bytes, (size_t)n);
}

static void turn(void)
{
	for (unsigned i = 0; i < TURNS; i++)
		uv_run(&rig.loop, UV_RUN_NOWAIT);
	for (unsigned i = 0; i < PEERS; i++)
		hear(&clients[i]);
}

static void say(struct client *c, const uint8_t *data, size_t len)
{
	for (unsigned tries = 0; len > 0 && tries < TURNS_MAX; tries++) {
		size_t piece = c->is_bytewise ? 1 : len;
		ssize_t n = send(c->fd, data, piece, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
		if (len > 0 || c->is_bytewise)
			uv_run(&rig.loop, UV_RUN_NOWAIT);
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
		perror("fuzz_http: connect");
		abort();
	}
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void close_client(struct client *c)
{
	close(c->fd);
	read_answers(buf_slice(&c->heard));
	buf_deinit(&c->heard);
}

static void happen(uint8_t op, unsigned *current)
{
	struct client *c = &clients[*current];

	switch (op) {
	case OP_NEXT:
		*current = (*current + 1) % PEERS;
		break;
	case OP_CLOSE:
		close_client(c);
		open_client(c);
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
		turn();
		break;
	}
}

/* ---- one run ---- */

static void serve_turn(void *ctx)
{
	if (server)
		server_turn(server);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct broker_config config;

	signal(SIGPIPE, SIG_IGN); /* as the broker does */
	rig_config_init(&config);
	config.window_messages = 64;
	config.memory_max_bytes = 2 << 20;
	config.vhosts_max = 3;
	/* A slow machine is no reason for another course of events. */
	config.rules_budget_ms = 5000;
	rig_init(&rig, &config);
	log_configure(LOG_NONE, true);
	rig.on_turn = serve_turn;
	return 0;
}

static void start_server(void)
{
	struct server_config net;
	struct error err;

	server_config_init(&net);
	net.payload_max = PAYLOAD_MAX;
	server = server_create(&rig.loop, rig.service, &net);
	if (server_listen_http(server, "127.0.0.1:0", bound, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
}

static void on_server_closed(void *ctx)
{
	*(bool *)ctx = true;
}

/* With it the messages end that are held over HTTP. */
static void stop_server(void)
{
	struct server *closing = server;
	bool is_closed = false;

	server = NULL;
	server_close(closing, on_server_closed, &is_closed);
	for (unsigned i = 0; !is_closed; i++) {
		uv_run(&rig.loop, UV_RUN_NOWAIT);
		if (i == TURNS_MAX) {
			fprintf(stderr, "the server does not end\n");
			abort();
		}
	}
}

static void forget_everything(void)
{
	struct broker *b = rig.service->broker;
	struct vhost *v, *next;
	struct error err;

	HASH_ITER (hh, b->vhosts, v, next)
		vhost_destroy(v);
	if (vhost_open(b, SLICE("/"), &v, &err) < 0)
		abort();
	service_refuse_publishes(rig.service, false, "the fuzzer");
	rig_settle(&rig);
	if (b->env.memory_bytes == 0)
		return;
	fprintf(stderr, "%zu bytes of messages are left over\n", b->env.memory_bytes);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned current = 0;
	size_t from = 0;

	start_server();
	for (unsigned i = 0; i < PEERS; i++)
		open_client(&clients[i]);
	for (size_t i = 0; i <= size; i++) {
		if (i < size && data[i] < OP_FIRST)
			continue;
		say(&clients[current], data + from, i - from);
		happen(i < size ? data[i] : OP_TURN, &current);
		from = i + 1;
	}
	/* Some connections end before the server does, others with it. */
	close_client(&clients[0]);
	uv_run(&rig.loop, UV_RUN_NOWAIT);
	stop_server();
	for (unsigned i = 1; i < PEERS; i++)
		close_client(&clients[i]);
	forget_everything();
	return 0;
}
