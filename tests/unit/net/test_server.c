#include "check.h"
#include "proto/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/server.h"
#include "patience.h"

static struct rig rig;
static struct server *server;
static char bound[SERVER_ADDRESS_MAX];

/* ---- clients: sockets of this thread, served by the loop in between -------------------
 */

static int open_client(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	addr.sin_port = htons((uint16_t)atoi(strrchr(bound, ':') + 1));
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* A turn of the loop, as long as there is time. */
static void turn(uint64_t late)
{
	if (uv_hrtime() > late)
		fail_msg("nothing came in time");
	uv_run(&rig.loop, UV_RUN_NOWAIT);
}

static void say(int fd, const char *data, size_t len)
{
	uint64_t late = patience_end_ns();

	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
		turn(late);
	}
}

/* Take `len` bytes, or what there is until the other side's end. */
static size_t hear(int fd, char *data, size_t len)
{
	uint64_t late = patience_end_ns();
	size_t at = 0;

	while (at < len) {
		ssize_t n = recv(fd, data + at, len - at, MSG_DONTWAIT);

		if (n == 0)
			break;
		if (n > 0)
			at += (size_t)n;
		turn(late);
	}
	return at;
}

static void expect(int fd, const char *wanted)
{
	char got[256];
	size_t len = strlen(wanted);

	assert_true(len < sizeof(got));
	got[hear(fd, got, len)] = '\0';
	assert_string_equal(got, wanted);
}

static void expect_end(int fd)
{
	char byte;

	assert_int_equal(hear(fd, &byte, 1), 0);
	close(fd);
}

static void ask(int fd, const char *text, const char *wanted)
{
	say(fd, text, strlen(text));
	expect(fd, wanted);
}

/* ---- the server
 * ------------------------------------------------------------------------- */

static void serve_turn(void *ctx)
{
	(void)ctx;
	server_turn(server);
}

static int start_with(const struct server_config *config)
{
	struct error err;

	server = server_create(&rig.loop, rig.service, config);
	rig.on_turn = serve_turn;
	return server_listen(server, "127.0.0.1:0", bound, &err);
}

static int start(void **state)
{
	struct server_config config;

	server_config_init(&config);
	return start_with(&config);
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

static int start_broker(void **state)
{
	struct broker_config config;

	rig_config_init(&config);
	rig_init(&rig, &config);
	return 0;
}

static int stop_broker(void **state)
{
	rig_deinit(&rig);
	return 0;
}

/* ---- tests
 * ------------------------------------------------------------------------------ */

TEST_THAT(lines_may_come_in_any_pieces)
{
	static const char text[] = "PING\r\nDECLARE queue q exclusive\r\n";
	int fd = open_client();

	for (size_t i = 0; i + 1 < sizeof(text); i++)
		say(fd, text + i, 1);
	expect(fd, "OK\r\nOK\r\n");
	ask(fd, "QUIT\r\n", "OK\r\n");
	expect_end(fd);
}

TEST_THAT(a_peer_that_has_closed_its_side_gets_its_answers)
{
	int fd = open_client();

	say(fd, "PING\r\nPING\r\n", 12);
	shutdown(fd, SHUT_WR);
	expect(fd, "OK\r\nOK\r\n");
	expect_end(fd);
}

TEST_THAT(what_a_lost_connection_held_goes_back)
{
	int fd = open_client(), other = open_client();
	char line[256] = "";
	uint64_t late = patience_end_ns();

	ask(other, "DECLARE queue q durable=0\r\n", "OK\r\n");
	ask(other, "PUB - q quiet 1\r\nx\r\nPING\r\n", "OK\r\n");
	ask(fd, "GET q\r\n", "OK 1\r\n");
	close(fd);
	while (server->conn_count > 1)
		turn(late);
	ask(other, "GET q\r\n", "OK 1\r\nMSG - 1 2 - q id=");
	hear(other, line, 16 + strlen(" ts=1795257322468 redelivered 1\r\nx\r\n"));
	assert_non_null(strstr(line, " redelivered 1\r\nx\r\n"));
	ask(other, "DELETE queue q\r\n", "OK\r\n");
	close(other);
}

/* Larger than any buffer on the way, in both directions. */
TEST_THAT(a_large_payload_goes_in_and_out)
{
	enum { LEN = 6 << 20 };
	char *payload = mem_alloc(LEN), *got = mem_alloc(LEN), line[256] = "";
	int fd = open_client();

	for (size_t i = 0; i < LEN; i++)
		payload[i] = (char)(i * 31 + i / 4093);
	ask(fd, "DECLARE queue q exclusive\r\n", "OK\r\n");
	ask(fd, "SUB q s\r\n", "OK\r\n");
	say(fd, "PUB - q quiet 6291456\r\n", 23);
	say(fd, payload, LEN);
	say(fd, "\r\n", 2);
	expect(fd, "MSG s 1 1 - q id=");
	hear(fd, line, 16 + strlen(" ts=1795257322468 6291456\r\n"));
	assert_non_null(strstr(line, " 6291456\r\n"));
	assert_int_equal(hear(fd, got, LEN), LEN);
	assert_memory_equal(got, payload, LEN);
	expect(fd, "\r\n");
	ask(fd, "ACK 1\r\n", "OK 1\r\n");
	close(fd);
	mem_free(payload);
	mem_free(got);
}

TEST_THAT(one_over_the_limit_is_told_so)
{
	int fd = open_client(), second;

	server->config.connections_max = 1;
	ask(fd, "PING\r\n", "OK\r\n");
	second = open_client();
	expect(second, "ERR limit the limit of 1 connections is reached\r\n");
	expect_end(second);
	ask(fd, "PING\r\n", "OK\r\n");
	close(fd);
}

TEST_THAT(a_line_that_never_ends_closes_the_connection)
{
	char *line = mem_alloc(LINE_MAX_BYTES);
	int fd = open_client();

	memset(line, 'x', LINE_MAX_BYTES);
	say(fd, line, LINE_MAX_BYTES);
	expect(fd, "ERR too-long a line has at most 65536 bytes\r\n");
	expect_end(fd);
	mem_free(line);
}

TEST_THAT(a_drain_is_announced)
{
	int fd = open_client();

	ask(fd, "PING\r\n", "OK\r\n");
	server_drain(server);
	expect(fd, "EVT closed shutdown the broker is stopping\r\n");
	assert_true(server_is_drained(server));
	close(fd);
}

TEST_THAT(a_unix_socket_serves_too_and_a_stale_one_is_replaced)
{
	char dir[] = "/tmp/tidemq-test.XXXXXX", address[SERVER_ADDRESS_MAX];
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct error err;
	int stale, fd;

	assert_non_null(mkdtemp(dir));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/s", dir);
	snprintf(address, sizeof(address), "unix:%s/s", dir);
	stale = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(stale, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(stale);
	if (server_listen(server, address, bound, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(bound, address);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ask(fd, "PING\r\n", "OK\r\n");
	close(fd);
	/* One that is in use is left alone. */
	assert_true(server_listen(server, address, bound, &err) < 0);
	assert_int_equal(access(addr.sun_path, F_OK), 0);
	stop(state);
	assert_int_equal(access(addr.sun_path, F_OK), -1);
	assert_int_equal(rmdir(dir), 0);
	start(state);
}

TEST_THAT(what_is_no_address_is_refused)
{
	static const char *const wrong[] = {
		"",
		"7310",
		"localhost",
		"127.0.0.1:",
		"127.0.0.1:65536",
		"127.0.0.1:x",
		"::1:1",
		"unix:",
		"127.0.0.1:-1",
		"127.0.0.1:123456789",
	};

	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct error err = { 0 };

		if (server_listen(server, wrong[i], bound, &err) != TIDE_ESYNTAX)
			fail_msg("'%s' was taken, or refused in another way", wrong[i]);
		assert_true(strlen(err.text) > 0);
	}
}

RUN_TESTS(.setup = start, .teardown = stop, .begin = start_broker, .end = stop_broker)
