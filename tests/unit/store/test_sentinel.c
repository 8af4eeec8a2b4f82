#include "fake_node.h"

#include "store/sentinel.h"

#define SENTINELS 3

struct rig {
	struct harness h;
	struct fake fakes[SENTINELS];
	struct redis_url url;
	struct sentinel *sentinel;
	unsigned found_port, moved_port, failures;
	char why[1024];
	bool is_closed;
};

/* It names 10.0.0.1 with that port, and tells of `other` with the id of it. */
static void set_answer(struct fake *f, const char *id, unsigned master_port,
		       unsigned epoch, const struct fake *other, const char *other_id)
{
	char list[256] = "*0\r\n", port[8], epoch_text[16], master[8];

	snprintf(master, sizeof(master), "%u", master_port);
	snprintf(epoch_text, sizeof(epoch_text), "%u", epoch);
	snprintf(port, sizeof(port), "%u", other ? other->port : 0);
	if (other)
		snprintf(list, sizeof(list),
			 "*1\r\n*6\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n"
			 "$%zu\r\n%s\r\n$5\r\nrunid\r\n$%zu\r\n%s\r\n",
			 strlen(port), port, strlen(other_id), other_id);
	snprintf(f->answer, sizeof(f->answer),
		 "$%zu\r\n%s\r\n*2\r\n$8\r\n10.0.0.1\r\n$%zu\r\n%s\r\n"
		 "*2\r\n$12\r\nconfig-epoch\r\n$%zu\r\n%s\r\n%s",
		 strlen(id), id, strlen(master), master, strlen(epoch_text), epoch_text,
		 list);
}

static void on_found(void *ctx, const char *host, unsigned port)
{
	struct rig *r = ctx;

	assert_string_equal(host, "10.0.0.1");
	r->found_port = port;
}

static void on_moved(void *ctx, const char *host, unsigned port)
{
	struct rig *r = ctx;

	r->moved_port = port;
}

static void on_failed(void *ctx, const char *why)
{
	struct rig *r = ctx;

	r->failures++;
	snprintf(r->why, sizeof(r->why), "%s", why);
}

static void on_closed(void *ctx)
{
	struct rig *r = ctx;

	r->is_closed = true;
}

static void begin(struct rig *r)
{
	harness_init(&r->h);
	for (unsigned i = 0; i < SENTINELS; i++)
		listen_as(&r->fakes[i], &r->h.loop);
}

/* The URL has the first one, or two, of them. */
static void ask_master(struct rig *r, unsigned count)
{
	const struct sentinel_hooks hooks = { r, on_found, on_failed, on_moved };
	char text[128];
	struct error err;

	if (count == 1)
		snprintf(text, sizeof(text), "redis+sentinel://127.0.0.1:%u/m",
			 r->fakes[0].port);
	else
		snprintf(text, sizeof(text),
			 "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/m", r->fakes[0].port,
			 r->fakes[1].port);
	assert_int_equal(redis_url_parse(text, &r->url, &err), TIDE_OK);
	/* So long nobody waits in a test that passes. */
	r->sentinel = sentinel_create(&r->h.loop, &r->url, 600000, &hooks);
	sentinel_ask(r->sentinel, NULL);
}

static void end(struct rig *r)
{
	sentinel_close(r->sentinel, on_closed, r);
	WAIT(&r->h, r->is_closed);
	for (unsigned i = 0; i < SENTINELS; i++)
		if (!uv_is_closing((uv_handle_t *)&r->fakes[i].listener))
			hang_up(&r->fakes[i]);
	uv_close((uv_handle_t *)&r->h.waker, NULL);
	uv_run(&r->h.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->h.loop), 0);
	redis_url_deinit(&r->url);
	rmdir(r->h.dir);
}

static unsigned answering(struct rig *r, unsigned *known)
{
	unsigned count;

	sentinel_count(r->sentinel, &count, known);
	return count;
}

TEST_THAT(the_newest_epoch_counts)
{
	struct rig r = { 0 };
	unsigned known;

	begin(&r);
	set_answer(&r.fakes[0], "a", 1000, 9, NULL, NULL);
	set_answer(&r.fakes[1], "b", 2000, 10, NULL, NULL);
	ask_master(&r, 2);
	WAIT(&r.h, r.found_port);
	assert_int_equal(r.found_port, 2000);
	assert_int_equal(answering(&r, &known), 2);
	assert_int_equal(known, 2);
	end(&r);
}

TEST_THAT(a_silent_one_is_not_waited_for)
{
	struct rig r = { 0 };

	begin(&r);
	r.fakes[0].is_silent = true;
	set_answer(&r.fakes[1], "b", 2000, 1, NULL, NULL);
	ask_master(&r, 2);
	WAIT(&r.h, r.found_port);
	assert_int_equal(r.found_port, 2000);
	end(&r);
}

TEST_THAT(others_are_learned_and_another_master_is_told)
{
	struct rig r = { 0 };
	unsigned known;

	begin(&r);
	set_answer(&r.fakes[0], "a", 1000, 1, &r.fakes[2], "c");
	set_answer(&r.fakes[2], "c", 1000, 1, &r.fakes[0], "a");
	ask_master(&r, 1);
	WAIT(&r.h, r.found_port);
	WAIT(&r.h, r.fakes[2].asked);
	assert_int_equal(r.moved_port, 0);
	set_answer(&r.fakes[2], "c", 3000, 2, &r.fakes[0], "a");
	hang_up(&r.fakes[0]);
	WAIT(&r.h, r.moved_port);
	assert_int_equal(r.moved_port, 3000);
	WAIT(&r.h, answering(&r, &known) == 1);
	assert_int_equal(known, 2);
	sentinel_ask(r.sentinel, NULL);
	WAIT(&r.h, r.found_port == 3000);
	end(&r);
}

TEST_THAT(one_that_has_two_addresses_counts_once)
{
	struct rig r = { 0 };
	unsigned known;

	begin(&r);
	/* What b tells of is a, at the address of c. */
	set_answer(&r.fakes[0], "a", 1000, 1, NULL, NULL);
	set_answer(&r.fakes[1], "b", 1000, 1, &r.fakes[2], "a");
	set_answer(&r.fakes[2], "a", 1000, 1, NULL, NULL);
	ask_master(&r, 2);
	WAIT(&r.h, r.fakes[0].asked > 1 && r.fakes[1].asked > 1);
	answering(&r, &known);
	assert_int_equal(known, 2);
	end(&r);
}

TEST_THAT(each_answer_is_told_when_no_master_is_named)
{
	struct rig r = { 0 };

	begin(&r);
	hang_up(&r.fakes[0]);
	snprintf(r.fakes[1].answer, sizeof(r.fakes[1].answer),
		 "$1\r\nb\r\n*-1\r\n-ERR No such master with that name\r\n"
		 "-ERR No such master with that name\r\n");
	ask_master(&r, 2);
	WAIT(&r.h, r.failures);
	assert_non_null(strstr(r.why, "no Sentinel names a master for 'm'"));
	assert_non_null(strstr(r.why, ": connection refused; "));
	assert_non_null(strstr(r.why, ": it knows no such Redis)"));
	/* And asked again, as long as somebody wants to know. */
	set_answer(&r.fakes[1], "b", 2000, 1, NULL, NULL);
	sentinel_ask(r.sentinel, NULL);
	WAIT(&r.h, r.found_port == 2000);
	end(&r);
}

RUN_TESTS()
