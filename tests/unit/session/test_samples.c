#include "check.h"

#include "base/buf.h"
#include "base/mem.h"
#include "session/samples.h"
#include "session/session_private.h"

static struct service service;
static struct broker *broker;
static struct samples *all;
static struct buf text;

static int setup(void **state)
{
	memset(&service, 0, sizeof(service));
	service.broker = broker = mem_zalloc(sizeof(*broker));
	broker->now_ms = 1000000;
	broker->mono_ms = 50;
	all = samples_create(&service);
	return 0;
}

static int teardown(void **state)
{
	samples_destroy(all);
	mem_free(broker);
	buf_deinit(&text);
	return 0;
}

static void pass(int64_t ms)
{
	broker->now_ms += ms;
	broker->mono_ms += ms;
	samples_turn(all);
}

static const char *rows(uint64_t max)
{
	struct json j = { .out = &text };

	buf_clear(&text);
	samples_write(all, max, &j);
	return strstr(buf_cstr(&text), "\"rows\":") + 7;
}

static unsigned count_rows(void)
{
	unsigned count = 0;

	for (const char *at = rows(0) + 1; (at = strchr(at, '[')) != NULL; at++)
		count++;
	return count;
}

TEST_THAT(nothing_is_sampled_before_the_broker_has_started)
{
	pass(100000);
	assert_int_equal(samples_due_ms(all), 0);
	assert_string_equal(rows(0), "[]}");
}

TEST_THAT(a_sample_has_rates_since_the_last_one_and_gauges)
{
	broker->is_started = true;
	broker->counters.published = 1000;
	pass(0);
	assert_int_equal(samples_due_ms(all), broker->now_ms + 5000);
	broker->counters.published += 50;
	broker->counters.acked += 1;
	broker->turn_time.busy.sum += 25000000;
	broker->env.memory_bytes = 77;
	service.protocols[0].open = 3;
	pass(4999);
	assert_string_equal(rows(0), "[]}");
	pass(1);
	assert_string_equal(rows(0), "[[1005000,10,0,0.2,0,0,0,0,0,0,null,3,77,0,null,"
				     "0.005]]}");
	pass(5000);
	assert_string_equal(rows(1), "[[1010000,0,0,0,0,0,0,0,0,0,null,3,77,0,null,0]]}");
	assert_int_equal(count_rows(), 2);
}

TEST_THAT(the_last_hour_is_kept)
{
	broker->is_started = true;
	pass(0);
	for (int i = 1; i <= 1000; i++)
		pass(5000);
	assert_int_equal(count_rows(), 720);
	assert_non_null(strstr(rows(1), "[[6000000,"));
	assert_non_null(strstr(rows(720), "[[2405000,"));
	assert_null(strstr(rows(0), "[2400000,"));
}

TEST_THAT(a_pause_is_one_sample_with_its_mean_rates)
{
	broker->is_started = true;
	pass(0);
	broker->counters.delivered += 600;
	pass(60000);
	assert_int_equal(count_rows(), 1);
	assert_non_null(strstr(rows(0), "[[1060000,0,10,"));
	assert_int_equal(samples_due_ms(all), broker->now_ms + 5000);
}

TEST_THAT(the_newest_has_rates_of_a_second_at_least)
{
	struct json j = { .out = &text };

	broker->is_started = true;
	pass(0);
	broker->counters.published += 10;
	pass(5000);
	broker->counters.published += 30;
	pass(999);
	samples_write_newest(all, &j);
	assert_non_null(strstr(buf_cstr(&text), "{\"t\":1005999,\"published\":2,"));
	pass(501);
	buf_clear(&text);
	j = (struct json){ .out = &text };
	samples_write_newest(all, &j);
	assert_non_null(strstr(buf_cstr(&text), "{\"t\":1006500,\"published\":20,"));
	assert_int_equal(count_rows(), 1);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
