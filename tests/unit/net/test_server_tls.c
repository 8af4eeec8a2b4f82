/* A listener with TLS: its sockets are here, its clients are struct tls. */
#include "check.h"
#include "certs.h"
#include "proto/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn.h"
#include "net/server.h"
#include "patience.h"
#include "tls/tls.h"

#define CLIENTS 100

static struct rig rig;
static struct server *server;
static char bound[SERVER_ADDRESS_MAX];
static struct tls_context *context; /* of clients */

struct client {
	int fd;
	struct tls *tls;
};

static void turn(uint64_t late)
{
	if (uv_hrtime() > late)
		fail_msg("nothing came in time");
	uv_run(&rig.loop, UV_RUN_NOWAIT);
}

static int open_socket(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	addr.sin_port = htons((uint16_t)atoi(strrchr(bound, ':') + 1));
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* What TLS has to send. */
static void push(struct client *c)
{
	struct buf *out = tls_out(c->tls);
	uint64_t late = patience_end_ns();

	while (buf_len(out) > 0) {
		ssize_t n = send(c->fd, buf_slice(out).data, buf_len(out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			buf_consume(out, (size_t)n);
		turn(late);
	}
}

/* One that has sent its ClientHello. */
static struct client begin(void)
{
	struct client c = { open_socket(), tls_create_client(context, "localhost") };
	char byte;

	assert_int_equal(tls_read(c.tls, &byte, 1), TIDE_AGAIN);
	return c;
}

static bool has_answer(const struct client *c)
{
	char byte;

	return recv(c->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* Take in what came: at most `room` bytes of plaintext. */
static size_t pull(struct client *c, char *out, size_t room)
{
	char cipher[20000];
	ssize_t n = recv(c->fd, cipher, sizeof(cipher), MSG_DONTWAIT);
	size_t len = 0;

	if (n > 0)
		tls_feed(c->tls, cipher, (size_t)n);
	while (len < room && (n = tls_read(c->tls, out + len, room - len)) > 0)
		len += (size_t)n;
	tls_keep(c->tls);
	push(c);
	return len;
}

static void shake_hands(struct client *c)
{
	uint64_t late = patience_end_ns();
	char byte;

	push(c);
	while (!tls_is_open(c->tls)) {
		assert_int_equal(pull(c, &byte, 1), 0);
		turn(late);
	}
}

static void end(struct client *c)
{
	tls_destroy(c->tls);
	close(c->fd);
}

static void ask(struct client *c, const char *text, const char *wanted)
{
	struct iovec vec = { (char *)(uintptr_t)text, strlen(text) };
	uint64_t late = patience_end_ns();
	char got[256];
	size_t len = 0;

	assert_int_equal(tls_write(c->tls, &vec, 1, SIZE_MAX), strlen(text));
	push(c);
	while (len < strlen(wanted)) {
		len += pull(c, got + len, sizeof(got) - 1 - len);
		turn(late);
	}
	got[len] = '\0';
	assert_string_equal(got, wanted);
}

static void serve_turn(void *ctx)
{
	server_turn(server);
}

static int start(void **state)
{
	struct server_config config;
	struct error err;

	server_config_init(&config);
	/* All of them at once take longer than that on a machine that is slow and busy.
	 */
	config.handshake_timeout_ms = 3600 * 1000;
	config.tls = (struct tls_files){ .cert = certs_path("server", ".pem"),
					 .key = certs_path("server", ".key") };
	server = server_create(&rig.loop, rig.service, &config);
	rig.on_turn = serve_turn;
	return server_listen(server, "tls:127.0.0.1:0", bound, &err);
}

static void on_closed(void *ctx)
{
	rig.on_turn = NULL;
	server = NULL;
}

static int stop(void **state)
{
	server_close(server, on_closed, NULL);
	while (server)
		uv_run(&rig.loop, UV_RUN_ONCE);
	return 0;
}

static unsigned count_answered(const struct client *clients)
{
	unsigned count = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		count += has_answer(&clients[i]);
	return count;
}

/* Handshakes of many clients that come at once take several turns: requests of others
 * are answered in between. */
TEST_THAT(handshakes_have_their_time_in_a_turn)
{
	struct client clients[CLIENTS], other = begin();
	unsigned answered = 0, turns = 0;
	uint64_t late;

	shake_hands(&other);
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i] = begin();
	late = patience_end_ns();
	while (server->conn_count < CLIENTS + 1)
		turn(late);
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct buf *out = tls_out(clients[i].tls);

		assert_int_equal(
			send(clients[i].fd, buf_slice(out).data, buf_len(out), 0),
			buf_len(out));
		buf_clear(out);
	}
	while (answered < CLIENTS) {
		unsigned now;

		turn(late);
		now = count_answered(clients);
		if (now == answered)
			continue;
		late = patience_end_ns();
		turns++;
		answered = now;
	}
	assert_true(turns >= 3);
	ask(&other, "PING\r\n", "OK\r\n");
	for (unsigned i = 0; i < CLIENTS; i++) {
		shake_hands(&clients[i]);
		if (i % 10 == 0)
			ask(&clients[i], "PING\r\n", "OK\r\n");
		end(&clients[i]);
	}
	end(&other);
}

/* Until the other side's goodbye, or its end. */
static ssize_t hear_end(struct client *c)
{
	uint64_t late = patience_end_ns();
	char cipher[1000], byte;
	ssize_t n, rc = tls_read(c->tls, &byte, 1);

	for (;;) {
		n = recv(c->fd, cipher, sizeof(cipher), MSG_DONTWAIT);
		if (n == 0)
			return rc;
		if (n > 0)
			tls_feed(c->tls, cipher, (size_t)n);
		rc = n > 0 ? tls_read(c->tls, &byte, 1) : rc;
		tls_keep(c->tls);
		turn(late);
	}
}

TEST_THAT(who_says_that_it_sends_no_more_gets_its_answers)
{
	struct client c = begin();
	struct iovec vec = { (char[]){ "PING\r\nPING\r\n" }, 12 };
	uint64_t late = patience_end_ns();
	char got[9] = "";
	size_t len = 0;

	shake_hands(&c);
	assert_int_equal(tls_write(c.tls, &vec, 1, SIZE_MAX), 12);
	tls_finish(c.tls);
	push(&c);
	while (len < 8) {
		len += pull(&c, got + len, 8 - len);
		turn(late);
	}
	assert_string_equal(got, "OK\r\nOK\r\n");
	assert_int_equal(hear_end(&c), TIDE_EMPTY);
	end(&c);
}

TEST_THAT(a_record_that_was_changed_ends_the_connection)
{
	struct client c = begin();
	struct iovec vec = { (char[]){ "PING\r\n" }, 6 };

	shake_hands(&c);
	ask(&c, "PING\r\n", "OK\r\n");
	assert_int_equal(tls_write(c.tls, &vec, 1, SIZE_MAX), 6);
	tls_out(c.tls)->data[tls_out(c.tls)->start + 7] ^= 1;
	push(&c);
	assert_int_equal(hear_end(&c), -EPROTO);
	assert_string_equal(tls_error(c.tls),
			    "the other side has ended TLS: bad record mac");
	end(&c);
}

TEST_THAT(an_idle_connection_keeps_no_buffers)
{
	struct client c = begin();
	const struct conn *conn;

	shake_hands(&c);
	ask(&c, "PING\r\n", "OK\r\n");
	conn = TAILQ_FIRST(&server->conns);
	assert_int_equal(tls_out(conn->tls)->cap, 0);
	assert_int_equal(conn->cipher.cap, 0);
	assert_int_equal(conn->in.cap, 0);
	end(&c);
}

TEST_THAT(connections_may_end_at_any_moment_of_a_handshake)
{
	for (size_t cut = 0; cut < 300; cut += 7) {
		struct client c = begin();
		struct buf *out = tls_out(c.tls);
		size_t len = cut < buf_len(out) ? cut : buf_len(out);

		assert_int_equal(send(c.fd, buf_slice(out).data, len, 0), len);
		turn(UINT64_MAX);
		turn(UINT64_MAX);
		end(&c);
	}
	for (uint64_t late = patience_end_ns(); server->conn_count > 0;)
		turn(late);
}

static int begin_all(void **state)
{
	struct broker_config config;
	struct tls_files files = { 0 };
	struct error err;

	certs_begin();
	certs_make("ca", &(struct cert){ .cn = "test CA", .is_ca = true }, NULL);
	certs_make("server",
		   &(struct cert){
			   .cn = "localhost", .san = "DNS:localhost", .rsa_bits = 2048 },
		   "ca");
	files.ca = certs_path("ca", ".pem");
	assert_int_equal(tls_context_create_client(&files, &context, &err), TIDE_OK);
	rig_config_init(&config);
	rig_init(&rig, &config);
	return 0;
}

static int end_all(void **state)
{
	rig_deinit(&rig);
	tls_context_unref(context);
	certs_end();
	return 0;
}

RUN_TESTS(.setup = start, .teardown = stop, .begin = begin_all, .end = end_all)
