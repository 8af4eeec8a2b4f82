#include "rig.h"
#include "session/session_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "host/log.h"
#include "proto/line/line.h"
#include "redis_stand_in.h"

#define NOW_S 1700000000

/* ---- no chance ---------------------------------------------------------------- */

/* The wall clock stands still: ids and times have the same digits in every
 * run. (Linked with --wrap=clock_gettime.) The names are the linker's. */
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_REALTIME)
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){ .tv_sec = NOW_S };
	return 0;
}

/* No slice of a turn is ever used up: valgrind is slow. (--wrap=uv_hrtime.) */
uint64_t __wrap_uv_hrtime(void);

uint64_t __wrap_uv_hrtime(void)
{
	return 1;
}

/* Lua takes the seeds of its string hashes and of math.random from here. */
time_t time(time_t *t)
{
	if (t)
		*t = NOW_S;
	return NOW_S;
}

/* ---- the connection's side ------------------------------------------------------ */

static void op_nothing(void *ctx)
{
}

static bool op_can_take(void *ctx)
{
	return true;
}

static void op_describe(void *ctx, struct json *out)
{
}

static const struct protocol_ops ops = {
	.finish = op_nothing,
	.kill = op_nothing,
	.wake = op_nothing,
	.can_take = op_can_take,
	.describe = op_describe,
};

/* ---- the broker ------------------------------------------------------------------- */

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "hot_paths: %s: %s\n", what, why);
	abort();
}

static void on_started(void *ctx, const struct error *err)
{
	struct rig *rig = ctx;

	if (err)
		fail("the broker does not start", err->text);
	rig->is_started = true;
	uv_stop(&rig->loop);
}

static void on_turn(void *ctx)
{
}

static void on_closed(void *ctx)
{
	struct rig *rig = ctx;

	rig->service = NULL;
}

void rig_init(struct rig *rig)
{
	struct service_hooks hooks = { rig, on_started, NULL, on_turn, on_closed };
	struct broker_config config;
	struct error err;

	*rig = (struct rig){ 0 };
	log_configure(LOG_ERROR, true);
	broker_config_init(&config);
	config.store.url = "redis://stand-in";
	config.rules_watch = false;
	/* The watchdog's thread sleeps from the first call on. */
	config.rules_budget_ms = 3600 * 1000;
	uv_loop_init(&rig->loop);
	if (service_create(&rig->service, &rig->loop, &config, &hooks, &err) < 0)
		fail("the broker cannot be made", err.text);
	while (!rig->is_started)
		uv_run(&rig->loop, UV_RUN_DEFAULT);
	out_pool_init(&rig->chunks);
	rig_open(rig, &rig->line, &line_protocol);
}

void rig_deinit(struct rig *rig)
{
	rig_close(&rig->line);
	service_close(rig->service, 0);
	uv_run(&rig->loop, UV_RUN_DEFAULT);
	if (rig->service || uv_loop_close(&rig->loop) != 0)
		fail("the broker cannot be closed", "something is open");
	pool_deinit(&rig->chunks);
}

/* ---- connections ------------------------------------------------------------------- */

void rig_open(struct rig *rig, struct rig_conn *c, const struct protocol_kind *kind)
{
	struct protocol_spec spec = {
		.service = rig->service,
		.out = &c->out,
		.ops = &ops,
		.ctx = c,
		.payload_max = PROTOCOL_PAYLOAD_MAX_DEFAULT,
	};

	out_init(&c->out, &rig->chunks);
	c->protocol = mem_alloc(kind->size);
	kind->init(c->protocol, &spec);
}

void rig_close(struct rig_conn *c)
{
	c->protocol->kind->deinit(c->protocol);
	mem_free(c->protocol);
	out_deinit(&c->out);
}

void rig_feed(struct rig_conn *c, char *data, size_t len)
{
	if (c->protocol->kind->feed(c->protocol, data, len) != len)
		fail("a request was not taken", data);
}

void rig_send(struct rig_conn *c)
{
	out_consume(&c->out, c->out.bytes);
}

void rig_exchange(struct rig *rig, struct rig_conn *c, const struct buf *text,
		  const char *expected)
{
	struct slice request = buf_slice(text);
	size_t len = strlen(expected);
	struct iovec vec;

	rig_feed(c, (char *)request.data, request.len);
	rig_settle(rig);
	if (out_iovecs(&c->out, &vec, 1) == 0 || vec.iov_len < len ||
	    memcmp(vec.iov_base, expected, len) != 0)
		fail("not answered as expected", request.data);
	rig_send(c);
}

/* ---- doing things ------------------------------------------------------------------ */

void rig_settle(struct rig *rig)
{
	do {
		service_turn(rig->service);
		redis_stand_in_answer();
	} while (!TAILQ_EMPTY(&rig->service->broker->active) ||
		 !service_is_idle(rig->service));
}

void rig_ask(struct rig *rig, const char *line)
{
	struct buf text = { 0 };

	buf_append_text(&text, line);
	buf_append_text(&text, "\r\n");
	buf_cstr(&text);
	rig_exchange(rig, &rig->line, &text, "OK");
	buf_deinit(&text);
}

struct queue *rig_queue(struct rig *rig, const char *name)
{
	struct queue *q =
		queue_find(rig->line.protocol->session->vhost, slice_from(name));

	if (!q)
		fail("there is no queue", name);
	return q;
}

struct channel *rig_channel(struct rig *rig)
{
	return session_channel(rig->line.protocol->session, 0);
}
