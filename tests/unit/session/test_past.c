#include "check.h"

#include "base/buf.h"
#include "base/mem.h"
#include "broker/broker.h"
#include "broker/queue.h"
#include "session/past.h"

static struct broker *broker;
static char vhost_name[] = "v";
static struct vhost vhost = { .name = vhost_name };
static struct past_set *set;
static struct buf text;

static int setup(void **state)
{
	broker = mem_zalloc(sizeof(*broker));
	vhost.broker = broker;
	broker->now_ms = 1000000000000;
	broker->mono_ms = 1000000;
	broker->second = 1000;
	set = past_create();
	return 0;
}

static int teardown(void **state)
{
	past_destroy(set);
	mem_free(broker);
	buf_deinit(&text);
	return 0;
}

static void pass(int64_t ms)
{
	broker->now_ms += ms;
	broker->mono_ms += ms;
	broker->second += ms / 1000;
}

static struct queue *make(const char *name)
{
	struct queue *q = mem_zalloc(sizeof(*q));

	q->vhost = &vhost;
	q->name = mem_strndup(name, strlen(name));
	q->rates = mem_zalloc(sizeof(*q->rates));
	return q;
}

static void destroy(struct queue *q)
{
	mem_free(q->rates);
	mem_free(q->name);
	mem_free(q);
}

/* Something was published two seconds ago. */
static void work(struct queue *q)
{
	rate_begin(&q->rates->in, q->counters.published, broker->second - 2);
	q->counters.published += 100;
	rate_begin(&q->rates->in, q->counters.published, broker->second);
}

static unsigned rows(const struct queue *q, uint64_t max)
{
	struct json j = { .out = &text };
	unsigned count = 0;

	buf_clear(&text);
	past_write(set, q, NULL, max, &j);
	for (const char *at = strstr(buf_cstr(&text), "\"rows\":") + 8;
	     (at = strchr(at, '[')) != NULL; at++)
		count++;
	return count;
}

TEST_THAT(a_queue_at_work_has_rows_and_one_at_rest_has_none)
{
	struct queue *busy = make("busy"), *idle = make("idle");

	work(busy);
	assert_true(past_begin(set, broker));
	past_note(set, busy);
	past_note(set, idle);
	assert_int_equal(rows(idle, 0), 0);
	assert_int_equal(rows(busy, 0), 1);
	assert_string_equal(
		buf_cstr(&text),
		"{\"every_ms\":10000,\"columns\":[\"t\",\"in_10s\",\"out_10s\","
		"\"ready\",\"unacked\",\"oldest_ready_ms\"],"
		"\"rows\":[[1000000000000,10,0,0,0,0]]}");
	assert_false(past_begin(set, broker));
	pass(10000);
	assert_true(past_begin(set, broker));
	past_note(set, busy);
	assert_int_equal(rows(busy, 0), 2);
	assert_int_equal(rows(busy, 1), 1);
	destroy(busy);
	destroy(idle);
}

TEST_THAT(an_hour_is_kept_and_then_a_queue_at_rest_has_none)
{
	struct queue *q = make("q");

	work(q);
	for (int i = 0; i < 400; i++) {
		work(q);
		(void)past_begin(set, broker);
		past_note(set, q);
		pass(10000);
	}
	assert_int_equal(rows(q, 0), 360);
	pass(1800000);
	assert_int_equal(rows(q, 0), 180);
	pass(1800000);
	(void)past_begin(set, broker);
	past_note(set, q);
	assert_int_equal(rows(q, 0), 0);
	destroy(q);
}

TEST_THAT(the_store_is_bounded_and_the_one_at_rest_makes_room)
{
	struct queue *queues[PAST_MAX + 1];
	char name[16];

	for (int i = 0; i <= PAST_MAX; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		queues[i] = make(name);
		work(queues[i]);
		past_note(set, queues[i]);
	}
	assert_int_equal(rows(queues[PAST_MAX - 1], 0), 1);
	assert_int_equal(rows(queues[PAST_MAX], 0), 0);
	pass(30000);
	for (int i = 1; i <= PAST_MAX; i++) {
		work(queues[i]);
		past_note(set, queues[i]);
	}
	assert_int_equal(rows(queues[0], 0), 0);
	assert_int_equal(rows(queues[PAST_MAX], 0), 1);
	assert_int_equal(rows(queues[1], 0), 2);
	for (int i = 0; i <= PAST_MAX; i++)
		destroy(queues[i]);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
