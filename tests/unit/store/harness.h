/* harness.h: a store on a loop, with an embedded Redis in a directory of its
 * own; waits for conditions with a deadline, never for a duration. */
#ifndef TIDE_TESTS_STORE_HARNESS_H
#define TIDE_TESTS_STORE_HARNESS_H

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <hiredis/hiredis.h>

#include "check.h"
#include "host/log.h"
#include "patience.h"
#include "store/store.h"

struct harness {
	uv_loop_t loop;
	uv_timer_t waker;
	char dir[128];
	struct store *store;
	struct store_shard *shard;
	redisContext *redis;
	enum store_state state;
	unsigned ups, downs;
	char why[512];
	bool is_closed;
};

static int harness_unlink(const char *path, const struct stat *st, int type,
			  struct FTW *ftw)
{
	return remove(path);
}

/* Lets UV_RUN_ONCE return now and then. Its timer repeats: one that is due already when
 * the loop runs fires before the wait, and once fired it would not end that. */
static void harness_wake(uv_timer_t *timer)
{
}

static void harness_on_state(void *ctx, enum store_state state, const char *why)
{
	struct harness *h = ctx;
	h->state = state;
	h->ups += state == STORE_UP;
	h->downs += state == STORE_DOWN;
	snprintf(h->why, sizeof(h->why), "%s", why);
}

/* Run the loop until the condition holds. */
#define WAIT(h, condition)                                                       \
	do {                                                                     \
		uint64_t late = patience_end_ns();                               \
		uv_timer_start(&(h)->waker, harness_wake, 5, 5);                 \
		while (!(condition) && uv_hrtime() < late)                       \
			uv_run(&(h)->loop, UV_RUN_ONCE);                         \
		uv_timer_stop(&(h)->waker);                                      \
		if (!(condition))                                                \
			fail_msg("not within the deadline: %s (last state: %s)", \
				 #condition, (h)->why);                          \
	} while (0)

static inline void harness_init(struct harness *h)
{
	signal(SIGPIPE, SIG_IGN);
	if (!getenv("TIDE_TEST_LOG"))
		log_configure(LOG_NONE, false);
	memset(h, 0, sizeof(*h));
	const char *tmp = getenv("TMPDIR");
	snprintf(h->dir, sizeof(h->dir), "%s/tide-store-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(h->dir));
	assert_int_equal(uv_loop_init(&h->loop), 0);
	uv_timer_init(&h->loop, &h->waker);
	h->waker.data = h;
}

/* For tests of a store that is up: STORE_TEST(name) { ... h ... } */
#define STORE_TEST(name) TEST_OF(struct harness *h, name)

/* What Redis may take to answer. */
static inline int64_t harness_limit_ms(void)
{
	return patience_ms(2000);
}

/* What is said when it took longer. */
static inline const char *harness_too_long(const char *what)
{
	static char text[64];
	snprintf(text, sizeof(text), "%s within %g s", what,
		 (double)harness_limit_ms() / 1000);
	return text;
}

static inline int harness_try_open(struct harness *h, const char *url, struct error *err)
{
	struct store_config config = {
		.url = url,
		.data_dir = h->dir,
		.fsync = STORE_FSYNC_ALWAYS,
		.connect_timeout_ms = harness_limit_ms(),
		.command_timeout_ms = harness_limit_ms(),
	};
	struct store_hooks hooks = { .ctx = h, .on_state = harness_on_state };
	h->state = STORE_STARTING;
	h->is_closed = false;
	return store_open(&h->store, &h->loop, &config, &hooks, err);
}

static inline void harness_open(struct harness *h, const char *url)
{
	struct error err = { 0, "" };
	if (harness_try_open(h, url, &err) < 0)
		fail_msg("%s", err.text);
	h->shard = store_shard_create(SLICE("/"), SLICE("jobs"), 0);
}

static inline void harness_open_up(struct harness *h)
{
	harness_open(h, "embedded");
	WAIT(h, h->state != STORE_STARTING);
	if (h->state != STORE_UP)
		fail_msg("%s", h->why);
}

static void harness_on_closed(void *ctx)
{
	((struct harness *)ctx)->is_closed = true;
}

static inline void harness_close(struct harness *h)
{
	store_shard_destroy(h->shard);
	h->shard = NULL;
	store_close(h->store, 5000, harness_on_closed, h);
	WAIT(h, h->is_closed);
	h->store = NULL;
	redisFree(h->redis);
	h->redis = NULL;
}

static inline void harness_deinit(struct harness *h)
{
	redisFree(h->redis);
	uv_close((uv_handle_t *)&h->waker, NULL);
	/* After a failed test something may be open that never ends. */
	for (int i = 0; uv_run(&h->loop, UV_RUN_NOWAIT) && i < DEADLINE_MS; i++)
		usleep(1000);
	nftw(h->dir, harness_unlink, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(uv_loop_close(&h->loop), 0);
}

static inline int harness_setup(void **state)
{
	static struct harness h;
	harness_init(&h);
	harness_open_up(&h);
	*state = &h;
	return 0;
}

static inline int harness_teardown(void **state)
{
	harness_close(*state);
	harness_deinit(*state);
	return 0;
}

/* A connection of the test's own to the embedded Redis: the harness closes it. */
static inline redisContext *harness_redis(struct harness *h)
{
	char path[160];
	if (h->redis && h->redis->err) {
		redisFree(h->redis);
		h->redis = NULL;
	}
	if (h->redis)
		return h->redis;
	snprintf(path, sizeof(path), "%s/redis.sock", h->dir);
	h->redis = redisConnectUnix(path);
	assert_non_null(h->redis);
	assert_int_equal(h->redis->err, 0);
	return h->redis;
}

static inline redisReply *harness_ask(struct harness *h, const char *format, va_list args)
{
	va_list again;
	va_copy(again, args);
	redisReply *reply = redisvCommand(harness_redis(h), format, args);
	/* It may be another Redis by now. */
	if (!reply)
		reply = redisvCommand(harness_redis(h), format, again);
	va_end(again);
	if (!reply)
		fail_msg("%s: %s", format, h->redis->errstr);
	return reply;
}

static inline redisReply *ask(struct harness *h, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	redisReply *reply = harness_ask(h, format, args);
	va_end(args);
	return reply;
}

/* The same where the answer says nothing, but for an error. */
static inline void tell(struct harness *h, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	redisReply *reply = harness_ask(h, format, args);
	va_end(args);
	if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", format, reply->str);
	freeReplyObject(reply);
}

static inline long long ask_int(struct harness *h, const char *command)
{
	redisReply *reply = ask(h, command);
	assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
	long long n = reply->integer;
	freeReplyObject(reply);
	return n;
}

/* NULL: there is none. */
static inline void assert_text(struct harness *h, const char *command, const char *want)
{
	redisReply *reply = ask(h, command);
	if (want)
		assert_string_equal(reply->str, want);
	else
		assert_int_equal(reply->type, REDIS_REPLY_NIL);
	freeReplyObject(reply);
}

static inline long harness_redis_pid(struct harness *h)
{
	redisReply *reply = ask(h, "INFO server");
	long pid = atol(strstr(reply->str, "process_id:") + strlen("process_id:"));
	freeReplyObject(reply);
	return pid;
}

static inline struct msg *make_msg(uint64_t id, const char *key, const char *payload,
				   size_t len)
{
	struct msg_header headers[1] = { { SLICE("tier"), SLICE("gold") } };
	struct msg spec = {
		.id = id,
		.ts_unix_ms = 1790000000000,
		.priority = 7,
		.header_count = 1,
		.headers = headers,
		.exchange = SLICE("orders"),
		.key = slice_from(key),
		.payload = payload,
		.payload_len = len,
	};
	struct msg *m = msg_create(&spec);
	assert_non_null(m);
	return m;
}

#endif
