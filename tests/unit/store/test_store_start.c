#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/prctl.h>

#include "fake_redis.h"

static int setup(void **state)
{
	static struct harness h;
	harness_init(&h);
	*state = &h;
	return 0;
}

static int teardown(void **state)
{
	harness_deinit(*state);
	return 0;
}

/* A request that is done or not. */
static void set_vhost(struct harness *h, const char *name, store_done_fn on_done,
		      void *ctx)
{
	store_definition_set(h->store, STORE_VHOSTS, SLICE(""), slice_from(name),
			     SLICE(""), on_done, ctx);
}

static void assert_start_fails(struct harness *h, const char *url, const char *why)
{
	harness_open(h, url);
	WAIT(h, h->state != STORE_STARTING);
	assert_int_equal(h->state, STORE_FAILED);
	if (!strstr(h->why, why))
		fail_msg("\"%s\" is not in \"%s\"", why, h->why);
	harness_close(h);
}

static void assert_open_fails(struct harness *h, const char *url, int code,
			      const char *why)
{
	struct error err = { 0, "" };
	assert_int_equal(harness_try_open(h, url, &err), code);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" is not in \"%s\"", why, err.text);
}

/* ---- servers of the test's own ------------------------------------------------- */

/* redis-server in h->dir with these arguments; lock_fd >= 0 is inherited. */
static pid_t start_redis(struct harness *h, int lock_fd, const char *const *args)
{
	const char *argv[32] = { "redis-server", "--save",    "",        "--daemonize",
				 "no",           "--logfile", "test.log" };
	unsigned count = 7;
	for (; *args; args++)
		argv[count++] = *args;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chdir(h->dir) < 0)
			_exit(1);
		if (lock_fd >= 0)
			fcntl(lock_fd, F_SETFD, 0);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(1);
	}
	return pid;
}

static void end_redis(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool answers(const char *path)
{
	redisContext *c = redisConnectUnix(path);
	redisReply *reply = c && !c->err ? redisCommand(c, "PING") : NULL;
	bool is_up = reply != NULL;
	if (reply)
		freeReplyObject(reply);
	redisFree(c);
	return is_up;
}

/* A pause between two looks at something that tells no event. */
static void look_again(void)
{
	usleep(2000);
}

static pid_t start_unix_redis(struct harness *h, char *url, size_t size,
			      const char *const *more)
{
	char path[160];
	const char *args[16] = { "--port", "0", "--unixsocket", "own.sock" };
	unsigned count = 4;
	for (; *more; more++)
		args[count++] = *more;
	args[count] = NULL;
	pid_t pid = start_redis(h, -1, args);
	snprintf(path, sizeof(path), "%s/own.sock", h->dir);
	for (int i = 0; i < 5000 && !answers(path); i++)
		look_again();
	snprintf(url, size, "redis+unix:%s", path);
	return pid;
}

static int bound_port(int fd)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t len = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	getsockname(fd, (struct sockaddr *)&address, &len);
	return ntohs(address.sin_port);
}

/* ---- nobody there ---------------------------------------------------------------- */

STORE_TEST(refused_connections_fail_the_start)
{
	char url[200];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	snprintf(url, sizeof(url), "redis://127.0.0.1:%d", bound_port(fd));
	assert_start_fails(h, url, "connection refused");
	snprintf(url, sizeof(url), "redis+unix:%s/none.sock", h->dir);
	assert_start_fails(h, url, "no such file");
	close(fd);
}

STORE_TEST(host_that_does_not_answer_fails_the_start_in_time)
{
	char url[80];
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fillers[4];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_port = htons((uint16_t)bound_port(fd));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	/* A full backlog drops what comes: nobody accepts. */
	assert_int_equal(listen(fd, 0), 0);
	for (int i = 0; i < 4; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(fillers[i], (struct sockaddr *)&address, sizeof(address));
	}
	snprintf(url, sizeof(url), "redis://127.0.0.1:%d", ntohs(address.sin_port));
	assert_start_fails(h, url, harness_too_long(""));
	for (int i = 0; i < 4; i++)
		close(fillers[i]);
	close(fd);
}

STORE_TEST(unreadable_configuration_fails_at_once)
{
	char dir[sizeof(h->dir)];
	assert_open_fails(h, "postgres://h", TIDE_ESYNTAX, "--store: give");
	memcpy(dir, h->dir, sizeof(dir));
	strcat(h->dir, "/none");
	assert_open_fails(h, "embedded", UV_ENOENT, "cannot open the data directory");
	h->dir[0] = '\0';
	assert_open_fails(h, "embedded", TIDE_ESYNTAX, "--data");
	memcpy(h->dir, dir, sizeof(dir));
}

STORE_TEST(none_is_up_and_not_durable)
{
	harness_open(h, "none");
	assert_int_equal(h->ups, 0);
	WAIT(h, h->ups == 1);
	assert_false(store_is_durable(h->store));
	struct store_stats stats;
	store_stats(h->store, &stats);
	assert_string_equal(stats.kind, "none");
	harness_close(h);
	/* And closed before it is up. */
	harness_open(h, "none");
	harness_close(h);
	assert_int_equal(h->ups, 1);
}

STORE_TEST(store_can_be_closed_before_it_is_up)
{
	harness_open(h, "embedded");
	harness_close(h);
	harness_open(h, "redis://localhost:1");
	harness_close(h);
	assert_int_equal(h->ups, 0);
}

/* ---- somebody else's Redis ----------------------------------------------------------
 */

STORE_TEST(passwords_are_checked)
{
	char url[300];
	char path[200];
	static const char *const args[] = { "--requirepass", "s3cret", NULL };
	pid_t pid = start_unix_redis(h, path, sizeof(path), args);
	assert_start_fails(h, path, "requires a password");
	const char *socket_path = path + strlen("redis+unix:");
	snprintf(url, sizeof(url), "redis+unix::wrong@%s", socket_path);
	assert_start_fails(h, url, "WRONGPASS");
	snprintf(url, sizeof(url), "redis+unix:nobody:s3cret@%s", socket_path);
	assert_start_fails(h, url, "WRONGPASS");
	snprintf(url, sizeof(url), "redis+unix:default:s3cret@%s?db=9999", socket_path);
	assert_start_fails(h, url, "does not select the database");
	snprintf(url, sizeof(url), "redis+unix:default:s3cret@%s?db=3", socket_path);
	harness_open(h, url);
	WAIT(h, h->ups == 1);
	set_vhost(h, "/", NULL, NULL);
	harness_close(h);
	redisContext *c = redisConnectUnix(socket_path);
	freeReplyObject(redisCommand(c, "AUTH s3cret"));
	freeReplyObject(redisCommand(c, "SELECT 3"));
	redisReply *reply = redisCommand(c, "SCARD {tide}:vhosts");
	assert_int_equal(reply->integer, 1);
	freeReplyObject(reply);
	redisFree(c);
	end_redis(pid);
}

static void on_batch(void *ctx, const struct batch_result *result)
{
	assert_int_equal(result->removed, TIDE_OK);
	assert_int_equal(result->written, TIDE_OK);
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	assert_int_equal(status, TIDE_OK);
	assert_int_equal(count, 1);
}

static void on_purged(void *ctx, int status, const char *text, uint64_t removed,
		      const uint64_t *ids, size_t id_count)
{
	assert_int_equal(status, TIDE_OK);
	assert_int_equal(removed, 1);
	++*(unsigned *)ctx;
}

STORE_TEST(rights_that_the_manual_names_are_enough)
{
	char path[200];
	char url[300];
	unsigned purged = 0;
	static const char *const args[] = { NULL };
	pid_t pid = start_unix_redis(h, path, sizeof(path), args);
	const char *socket_path = path + strlen("redis+unix:");
	redisContext *c = redisConnectUnix(socket_path);
	redisReply *reply = redisCommand(
		c, "ACL SETUSER tide on >pw ~tide:* ~{tide}:* +@read +@write "
		   "+@transaction +@scripting +@connection +info +config|get");
	assert_int_equal(reply->type, REDIS_REPLY_STATUS);
	freeReplyObject(reply);
	redisFree(c);
	snprintf(url, sizeof(url), "redis+unix:tide:pw@%s", socket_path);
	harness_open(h, url);
	WAIT(h, h->state != STORE_STARTING);
	assert_string_equal(h->state == STORE_UP ? "" : h->why, "");
	struct msg *m = make_msg(1, "k", "p", 1);
	struct batch *b = store_batch_begin(h->store, h->shard);
	batch_insert(b,
		     &(struct store_insert){ m, 0, m->expires_unix_ms, STORE_READY, 0 });
	msg_unref(m);
	batch_remove(b, 2, STORE_READY, true, true);
	store_batch_commit_take(b, on_batch, NULL);
	store_read(
		h->store, h->shard,
		&(struct store_read){ .set = STORE_READY, .count = 1, .max_bytes = 100 },
		on_rows, NULL);
	store_purge(h->store, h->shard, &(struct store_purge){ STORE_READY, 0, 1, false },
		    on_purged, &purged);
	WAIT(h, purged == 1);
	harness_close(h);
	end_redis(pid);
}

STORE_TEST(redis_that_evicts_is_refused)
{
	char url[200];
	static const char *const args[] = { "--maxmemory", "100mb", "--maxmemory-policy",
					    "allkeys-lru", NULL };
	pid_t pid = start_unix_redis(h, url, sizeof(url), args);
	assert_start_fails(h, url, "maxmemory-policy is allkeys-lru");
	end_redis(pid);
}

/* In front of the C library's: the name has first an address to which connect() has
 * no way, which it says at once. */
#define NO_WAY_NAME "no-way-first"
#define NO_WAY "255.255.255.255"
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		struct addrinfo **out)
{
	int (*next)(const char *h, const char *p, const struct addrinfo *i,
		    struct addrinfo **o) = dlsym(RTLD_NEXT, "getaddrinfo");
	if (!host || strcmp(host, NO_WAY_NAME) != 0)
		return next(host, port, hints, out);
	int status = next(NO_WAY, port, hints, out);
	return status ? status : next("127.0.0.1", port, hints, &(*out)->ai_next);
}

/* Start a Redis at a free port, which `fd` finds and is closed, and connect by a name. */
static pid_t connect_by_name(struct harness *h, const char *name, int fd)
{
	char url[80], port[8];
	snprintf(port, sizeof(port), "%d", bound_port(fd));
	close(fd);
	const char *const args[] = { "--port", port, "--bind", "127.0.0.1", NULL };
	pid_t pid = start_redis(h, -1, args);
	snprintf(url, sizeof(url), "redis://%s:%s", name, port);
	for (int i = 0; i < 1000; i++) {
		harness_open(h, url);
		WAIT(h, h->state != STORE_STARTING);
		if (h->ups || !strstr(h->why, "refused"))
			break;
		harness_close(h);
		look_again();
	}
	assert_string_equal(h->ups ? "" : h->why, "");
	return pid;
}

STORE_TEST(next_address_is_tried_when_the_first_fails_at_once)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(1) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, NO_WAY, &to.sin_addr);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), -1);
	pid_t pid = connect_by_name(h, NO_WAY_NAME, fd);
	harness_close(h);
	end_redis(pid);
}

STORE_TEST(next_address_of_a_name_is_tried)
{
	struct addrinfo *found;
	/* A container may have no hosts file. */
	if (getaddrinfo("localhost", NULL, NULL, &found) != 0)
		skip();
	freeaddrinfo(found);
	pid_t pid = connect_by_name(h, "localhost", socket(AF_INET, SOCK_STREAM, 0));
	struct store_stats stats;
	store_stats(h->store, &stats);
	assert_string_equal(stats.kind, "redis");
	assert_int_equal(strncmp(stats.address, "localhost:", 10), 0);
	harness_close(h);
	end_redis(pid);
}

/* ---- a Redis that behaves badly
 * -------------------------------------------------------- */

#define INFO(len, text) "+OK\r\n*0\r\n*0\r\n*0\r\n$" #len "\r\n" text "\r\n"
#define HELLO_GOOD INFO(19, "redis_version:7.0.1")
#define HELLO_OLD INFO(21, "redis_version:5.0.144")
#define HELLO_LOADING INFO(30, "redis_version:7.0.1\nloading:1\n")
#define HELLO_REPLICA INFO(31, "redis_version:7.0.1\r\nrole:slave")
#define HELLO_SENTINEL INFO(39, "redis_version:7.0.1\nredis_mode:sentinel")
#define HELLO_CLUSTER INFO(37, "redis_version:7.0.1\ncluster_enabled:1")

static void fake_url(const struct fake_redis *f, char *url, size_t size)
{
	snprintf(url, size, "redis+unix:%s", f->path);
}

static void assert_fake_fails(struct harness *h, const char *answer, const char *why)
{
	struct fake_redis f;
	char url[200];
	const char *const script[] = { answer };
	fake_open(&f, h, script, 1);
	fake_url(&f, url, sizeof(url));
	assert_start_fails(h, url, why);
	fake_close(&f);
	uv_run(&h->loop, UV_RUN_DEFAULT);
}

STORE_TEST(unfit_servers_fail_the_start)
{
	assert_fake_fails(h, HELLO_OLD,
			  "Redis 6.0 or newer is needed, this one is 5.0.144");
	assert_fake_fails(h, HELLO_REPLICA, "is a replica");
	assert_fake_fails(h, HELLO_CLUSTER, "cluster node");
	assert_fake_fails(h, HELLO_SENTINEL,
			  "this is a Sentinel, which stores nothing: use "
			  "redis+sentinel://HOST:PORT/NAME, with the name");
	assert_fake_fails(h, "+OK\r\n*0\r\n-NOPERM no\r\n*0\r\n-NOPERM no\r\n",
			  "does not answer INFO: NOPERM");
	assert_fake_fails(h, "+OK\r\n*0\r\n*0\r\n*0\r\n$2\r\n\r\n\r\n",
			  "of no known version");
	assert_fake_fails(h, "HTTP/1.1 400 Bad Request\r\n", "Protocol error");
	assert_fake_fails(h, "*-5\r\n", "out of range");
	assert_fake_fails(h, NULL, "closed the connection");
	assert_fake_fails(h, "", harness_too_long("no reply"));
	assert_int_equal(h->ups, 0);
}

STORE_TEST(reason_of_a_hang_up_is_told)
{
	struct fake_redis f;
	char url[200];
	static const char *const script[] = { NULL };
	fake_open(&f, h, script, 1);
	f.greeting = "-ERR max number of clients reached\r\n";
	fake_url(&f, url, sizeof(url));
	assert_start_fails(h, url, "max number of clients reached");
	fake_close(&f);
}

STORE_TEST(loading_redis_is_waited_for)
{
	struct fake_redis f;
	static const char *const script[] = {
		HELLO_LOADING,
		"+OK\r\n-LOADING x\r\n-LOADING x\r\n-LOADING x\r\n-LOADING x\r\n",
		HELLO_GOOD
	};
	fake_start(&f, h, script, 3);
	WAIT(h, h->state != STORE_STARTING);
	assert_int_equal(h->state, STORE_UP);
	assert_int_equal(f.client_count, 3);
	fake_end(&f, h);
}

static void on_done(void *ctx, int status, const char *text)
{
	assert_int_equal(status, TIDE_OK);
	++*(unsigned *)ctx;
}

STORE_TEST(unreadable_replies_are_a_lost_connection)
{
	struct fake_redis f;
	unsigned calls = 0;
	/* Garbage; a hang-up within a reply; a reply too many; then all is well,
	 * but for a loading phase and a refusal on the way back. */
	static const char *const script[] = {
		HELLO_GOOD, "what?\r\n", HELLO_GOOD, NULL,           HELLO_LOADING,
		HELLO_OLD,  HELLO_GOOD,  ":1\r\n",   ":1\r\n:1\r\n", HELLO_GOOD,
	};
	fake_start(&f, h, script, sizeof(script) / sizeof(script[0]));
	set_vhost(h, "a", on_done, &calls);
	WAIT(h, calls == 1);
	assert_int_equal(h->downs, 2);
	assert_int_equal(h->ups, 3);
	set_vhost(h, "b", on_done, &calls);
	WAIT(h, h->downs == 3);
	assert_non_null(strstr(h->why, "a reply to no request"));
	WAIT(h, h->ups == 4);
	assert_int_equal(calls, 2);
	fake_end(&f, h);
}

static void on_refused(void *ctx, const struct batch_result *result)
{
	assert_int_equal(result->removed, TIDE_OK);
	assert_int_equal(result->written, TIDE_ESTORE);
	assert_non_null(strstr(result->text, "invalid bulk length"));
	++*(unsigned *)ctx;
}

static void commit_two(struct harness *h, batch_done_fn on_done_fn, unsigned *calls)
{
	struct batch *b = store_batch_begin(h->store, h->shard);
	struct msg spec = { .id = 1, .key = SLICE("k"), .payload = "x" };
	struct msg *m = msg_create(&spec);
	batch_insert(b,
		     &(struct store_insert){ m, 0, m->expires_unix_ms, STORE_READY, 0 });
	store_batch_commit_take(b, on_done_fn, calls);
	msg_unref(m);
}

STORE_TEST(request_that_redis_cannot_read_fails_alone)
{
	struct fake_redis f;
	unsigned refused = 0, calls = 0;
	/* To MULTI, to the first command within, and the end of the connection. */
	static const char *const script[] = {
		HELLO_GOOD,
		"+OK\r\n-ERR Protocol error: invalid bulk length\r\nend\r\n",
		HELLO_GOOD,
		":1\r\n",
	};
	fake_start(&f, h, script, sizeof(script) / sizeof(script[0]));
	WAIT(h, h->ups == 1);
	commit_two(h, on_refused, &refused);
	set_vhost(h, "a", on_done, &calls);
	WAIT(h, refused == 1 && calls == 1);
	assert_int_equal(h->downs, 1);
	fake_end(&f, h);
}

static void on_given_up(void *ctx, int status, const char *text)
{
	assert_int_equal(status, TIDE_ESTORE);
	assert_non_null(strstr(text, "8 connections to Redis were lost"));
	++*(unsigned *)ctx;
}

STORE_TEST(request_over_which_eight_connections_are_lost_fails_alone)
{
	struct fake_redis f;
	unsigned given_up = 0, calls = 0;
	const char *script[18] = { NULL };
	for (int i = 0; i < 18; i += 2)
		script[i] = HELLO_GOOD;
	script[17] = ":1\r\n";
	fake_start(&f, h, script, 18);
	WAIT(h, h->ups == 1);
	set_vhost(h, "a", on_given_up, &given_up);
	set_vhost(h, "b", on_done, &calls);
	WAIT(h, h->downs == 7);
	assert_int_equal(given_up, 0);
	WAIT(h, given_up == 1 && calls == 1);
	assert_int_equal(h->downs, 8);
	fake_end(&f, h);
}

/* ---- the embedded Redis
 * ------------------------------------------------------------------ */

STORE_TEST(second_broker_is_refused_by_the_directory)
{
	char why[64];
	harness_open_up(h);
	struct store *first = h->store;
	snprintf(why, sizeof(why), "in use by the broker with pid %ld", (long)getpid());
	assert_open_fails(h, "embedded", TIDE_EEXISTS, why);
	h->store = first;
	harness_close(h);
	harness_open_up(h);
	harness_close(h);
}

STORE_TEST(nothing_is_left_running_after_close)
{
	harness_open_up(h);
	long pid = harness_redis_pid(h);
	assert_int_equal(getsid((pid_t)pid), pid);
	harness_close(h);
	assert_int_equal(kill((pid_t)pid, 0), -1);
}

STORE_TEST(long_data_directory_is_no_obstacle)
{
	char dir[sizeof(h->dir)];
	static char long_dir[400];
	memcpy(dir, h->dir, sizeof(dir));
	snprintf(long_dir, sizeof(long_dir), "%s/%0*d", dir, 200, 0);
	assert_int_equal(mkdir(long_dir, 0700), 0);
	struct store_config config = {
		.url = "embedded",
		.data_dir = long_dir,
		.connect_timeout_ms = harness_limit_ms(),
		.command_timeout_ms = harness_limit_ms(),
	};
	struct store_hooks hooks = { .ctx = h, .on_state = harness_on_state };
	struct error err;
	assert_int_equal(store_open(&h->store, &h->loop, &config, &hooks, &err), TIDE_OK);
	WAIT(h, h->ups == 1);
	harness_close(h);
}

STORE_TEST(missing_redis_server_is_told)
{
	char *path = strdup(getenv("PATH"));
	setenv("PATH", h->dir, 1);
	assert_open_fails(h, "embedded", UV_ENOENT, "redis-server is not on the PATH");
	setenv("PATH", path, 1);
	free(path);
}

/* Debian's package redis-tools, without redis-server. */
STORE_TEST(redis_goes_by_another_name)
{
	char *path = strdup(getenv("PATH"));
	char bin[160], program[192];

	snprintf(bin, sizeof(bin), "%s/bin", h->dir);
	snprintf(program, sizeof(program), "%s/redis-check-rdb", bin);
	assert_int_equal(mkdir(bin, 0700), 0);
	assert_int_equal(symlink("/usr/bin/redis-check-rdb", program), 0);
	setenv("PATH", bin, 1);
	harness_open_up(h);
	setenv("PATH", path, 1);
	free(path);
	assert_true(harness_redis_pid(h) > 0);
	harness_close(h);
	unlink(program);
	rmdir(bin);
}

STORE_TEST(last_words_of_a_redis_that_cannot_start_are_told)
{
	char path[160];
	snprintf(path, sizeof(path), "%s/appendonlydir", h->dir);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	close(fd);
	assert_start_fails(h, "embedded", "appendonlydir");
}

static void write_and_wait_for_the_end(const char *dir, int ready_fd)
{
	static struct harness h;
	unsigned calls = 0;
	memset(&h, 0, sizeof(h));
	snprintf(h.dir, sizeof(h.dir), "%s", dir);
	uv_loop_init(&h.loop);
	uv_timer_init(&h.loop, &h.waker);
	h.waker.data = &h;
	harness_open_up(&h);
	set_vhost(&h, "kept", on_done, &calls);
	WAIT(&h, calls == 1);
	if (write(ready_fd, "x", 1) == 1)
		uv_run(&h.loop, UV_RUN_DEFAULT);
	_exit(1);
}

static char first_vhost[32];

static void on_definition(void *ctx, const struct store_definition *d)
{
	snprintf(first_vhost, sizeof(first_vhost), "%.*s", SLICE_ARG(d->name));
}

STORE_TEST(what_a_killed_broker_wrote_is_there)
{
	int ready[2];
	char byte;
	unsigned calls = 0;
	assert_int_equal(pipe(ready), 0);
	pid_t owner = fork();
	if (owner == 0)
		write_and_wait_for_the_end(h->dir, ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	/* At once: the old redis-server is still there, or on its way out. */
	harness_open_up(h);
	store_definition_load(h->store, on_definition, on_done, &calls);
	WAIT(h, calls == 1);
	assert_string_equal(first_vhost, "kept");
	harness_close(h);
}

/* As a broker leaves it that was killed. */
static pid_t start_left_over(struct harness *h)
{
	static const char *const args[] = { "--port",
					    "0",
					    "--unixsocket",
					    "redis.sock",
					    "--appendonly",
					    "yes",
					    "--appendfsync",
					    "no",
					    NULL };
	char path[160];
	snprintf(path, sizeof(path), "%s/redis.lock", h->dir);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	pid_t pid = start_redis(h, fd, args);
	close(fd);
	harness_open_up(h);
	return pid;
}

STORE_TEST(left_over_redis_is_used_and_set_right)
{
	pid_t pid = start_left_over(h);
	assert_int_equal(harness_redis_pid(h), pid);
	redisReply *reply = ask(h, "CONFIG GET appendfsync");
	assert_string_equal(reply->element[1]->str, "always");
	freeReplyObject(reply);
	/* The test is its parent: somebody has to take its end. */
	store_shard_destroy(h->shard);
	store_close(h->store, 1000, harness_on_closed, h);
	WAIT(h, h->is_closed);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

STORE_TEST(left_over_redis_that_dies_is_replaced)
{
	unsigned calls = 0;
	pid_t pid = start_left_over(h);
	end_redis(pid);
	set_vhost(h, "a", on_done, &calls);
	WAIT(h, calls == 1);
	assert_int_not_equal(harness_redis_pid(h), pid);
	harness_close(h);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
