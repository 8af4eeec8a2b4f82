#include "check.h"

#include <stdio.h>

#include "access/allowance.h"

static struct allowances all;

static int setup(void **state)
{
	allowance_init(&all);
	return 0;
}

static int teardown(void **state)
{
	allowance_deinit(&all);
	return 0;
}

static struct allowance *enter(enum allowance_kind kind, const char *name,
			       const struct user_limits *limits)
{
	struct allowance *a = NULL;
	struct error err;

	if (allowance_enter(&all, kind, slice_from(name), limits, &a, &err) < 0)
		return NULL;
	return a;
}

TEST_THAT(connections_of_one_name_share_what_it_may_have)
{
	const struct user_limits two = { .connections = 2 };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &two), *untouched = NULL;
	struct allowance *eve = enter(ALLOWANCE_USER, "eve", &two);
	struct allowance *address = enter(ALLOWANCE_ADDRESS, "bob", &two);
	struct error err;

	assert_ptr_equal(enter(ALLOWANCE_USER, "bob", &two), a);
	assert_ptr_not_equal(eve, a);
	assert_ptr_not_equal(address, a);
	assert_int_equal(allowance_enter(&all, ALLOWANCE_USER, SLICE("bob"), &two,
					 &untouched, &err),
			 TIDE_ELIMIT);
	assert_string_equal(err.text, "user 'bob' has reached max-connections=2");
	assert_null(untouched);
	assert_int_equal(all.refused.connections, 1);
	allowance_leave(a, 0);
	assert_ptr_equal(enter(ALLOWANCE_USER, "bob", &two), a);
	allowance_leave(a, 0);
	allowance_leave(a, 0);
	allowance_leave(eve, 0);
	allowance_leave(address, 0);
	assert_null(all.by_key);
}

TEST_THAT(an_error_names_the_address_and_its_option)
{
	const struct user_limits one = { .connections = 1 };
	struct allowance *a = enter(ALLOWANCE_ADDRESS, "192.0.2.7", &one);
	struct error err;

	assert_int_equal(allowance_enter(&all, ALLOWANCE_ADDRESS, SLICE("192.0.2.7"),
					 &one, &a, &err),
			 TIDE_ELIMIT);
	assert_string_equal(err.text,
			    "address 192.0.2.7 has reached --address-connections 1");
	allowance_leave(a, 0);
}

TEST_THAT(channels_are_counted_over_all_connections)
{
	const struct user_limits three = { .channels = 3 };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &three);
	struct error err;

	assert_ptr_equal(enter(ALLOWANCE_USER, "bob", &three), a);
	assert_int_equal(allowance_check_channels(a, 3, &err), TIDE_OK);
	allowance_add_channels(a, 2);
	assert_int_equal(allowance_check_channels(a, 1, &err), TIDE_OK);
	assert_int_equal(allowance_check_channels(a, 2, &err), TIDE_ELIMIT);
	assert_string_equal(err.text, "user 'bob' has reached max-channels=3");
	allowance_add_channels(a, 1);
	assert_int_equal(allowance_check_channels(a, 1, &err), TIDE_ELIMIT);
	assert_int_equal(allowance_check_channels(a, 0, &err), TIDE_OK);
	allowance_remove_channels(a, 1);
	assert_int_equal(allowance_check_channels(a, 1, &err), TIDE_OK);
	assert_int_equal(allowance_check_channels(NULL, 1, &err), TIDE_OK);
	allowance_leave(a, 0);
	allowance_leave(a, 0);
}

/* How many publishes of so many bytes are let through at that time. */
static unsigned publish(struct allowance *a, size_t bytes, int64_t mono_ms)
{
	struct error err;
	unsigned count = 0;

	while (count < 10000 && allowance_check_publish(a, mono_ms, &err) == TIDE_OK) {
		allowance_count_publish(a, bytes, mono_ms);
		count++;
	}
	return count;
}

TEST_THAT(a_rate_lets_a_second_through_and_then_as_much_as_it_says)
{
	const struct user_limits ten = { .publish_rate = 10 };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &ten);
	struct error err;

	assert_true(allowance_is_metered(a));
	assert_int_equal(publish(a, 1, 5000), 10);
	assert_int_equal(allowance_check_publish(a, 5000, &err), TIDE_ELIMIT);
	assert_string_equal(
		err.text, "user 'bob' has reached publish-rate=10; try again in 100 ms");
	assert_int_equal(publish(a, 1, 5099), 0);
	assert_int_equal(publish(a, 1, 5100), 1);
	assert_int_equal(publish(a, 1, 5350), 2);
	assert_int_equal(publish(a, 1, 5400), 1);
	assert_int_equal(publish(a, 1, 600000), 10);
	allowance_leave(a, 600000);
}

TEST_THAT(one_second_is_the_least_that_a_rate_of_one_waits)
{
	const struct user_limits one = { .publish_rate = 1 };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &one);

	assert_int_equal(publish(a, 1, 1), 1);
	assert_int_equal(publish(a, 1, 1000), 0);
	assert_int_equal(publish(a, 1, 1001), 1);
	allowance_leave(a, 1001);
}

TEST_THAT(what_is_larger_than_a_seconds_worth_goes_and_is_made_good)
{
	const struct user_limits kib = { .publish_bytes = 1024 };
	struct allowance *a = enter(ALLOWANCE_ADDRESS, "unix", &kib);
	struct error err;

	assert_int_equal(publish(a, 4096, 0), 1);
	assert_int_equal(allowance_check_publish(a, 0, &err), TIDE_ELIMIT);
	assert_string_equal(err.text, "address unix has reached --address-publish-bytes "
				      "1024; try again in 3001 ms");
	assert_int_equal(publish(a, 1, 3000), 0);
	assert_int_equal(publish(a, 1, 3001), 1);
	assert_int_equal(publish(a, 1024, 10000), 1);
	allowance_leave(a, 20000);
	assert_null(all.by_key);
}

TEST_THAT(what_is_taken_above_a_rate_is_waited_for)
{
	const struct user_limits ten = { .publish_rate = 10 };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &ten);

	assert_int_equal(allowance_wait_ms(a, 5000), 0);
	for (int i = 0; i < 9; i++)
		allowance_count_publish(a, 1, 5000);
	assert_int_equal(allowance_wait_ms(a, 5000), 0);
	allowance_count_publish(a, 1, 5000);
	assert_int_equal(allowance_wait_ms(a, 5000), 100);
	allowance_count_publish(a, 1, 5000);
	assert_int_equal(allowance_wait_ms(a, 5050), 150);
	assert_int_equal(allowance_wait_ms(a, 5200), 0);
	assert_int_equal(allowance_wait_ms(NULL, 0), 0);
	allowance_leave(a, 9000);
}

TEST_THAT(the_greatest_rate_is_as_good_as_none)
{
	const struct user_limits most = { .publish_rate = UINT64_MAX,
					  .publish_bytes = UINT64_MAX };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &most);

	assert_int_equal(publish(a, (size_t)1 << 30, 1), 10000);
	assert_int_equal(publish(a, (size_t)1 << 30, 1), 10000);
	allowance_leave(a, 1);
}

TEST_THAT(who_comes_again_gains_nothing)
{
	const struct user_limits ten = { .publish_rate = 10 };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &ten);

	assert_int_equal(publish(a, 1, 0), 10);
	allowance_leave(a, 0);
	a = enter(ALLOWANCE_USER, "bob", &ten);
	assert_int_equal(publish(a, 1, 0), 0);
	allowance_leave(a, 0);
	assert_int_equal(all.idle_count, 1);
	/* When it is made good it is forgotten, at the next end of a connection. */
	allowance_leave(enter(ALLOWANCE_USER, "eve", &ten), 2000);
	assert_int_equal(all.idle_count, 0);
	assert_null(all.by_key);
}

TEST_THAT(those_without_a_connection_are_bounded)
{
	const struct user_limits one = { .publish_rate = 1 };
	char name[32];

	for (int i = 0; i < ALLOWANCE_IDLE_MAX + 10; i++) {
		struct allowance *a;

		snprintf(name, sizeof(name), "10.0.%d.%d", i / 256, i % 256);
		a = enter(ALLOWANCE_ADDRESS, name, &one);
		assert_int_equal(publish(a, 1, 0), 1);
		allowance_leave(a, 0);
	}
	assert_int_equal(all.idle_count, ALLOWANCE_IDLE_MAX);
	assert_int_equal(HASH_COUNT(all.by_key), ALLOWANCE_IDLE_MAX);
}

TEST_THAT(a_change_takes_effect_at_once)
{
	const struct user_limits none = { 0 }, slow = { .publish_rate = 1 },
				 fast = { .publish_rate = 1000, .connections = 1 };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &none), *b;
	struct error err;

	assert_false(allowance_is_metered(a));
	assert_int_equal(publish(a, 1, 0), 10000);
	allowance_change(&all, SLICE("bob"), &fast);
	assert_int_equal(publish(a, 1, 0), 1000);
	assert_int_equal(
		allowance_enter(&all, ALLOWANCE_USER, SLICE("bob"), &fast, &b, &err),
		TIDE_ELIMIT);
	/* A second's worth was used, and stays so. */
	allowance_change(&all, SLICE("bob"), &slow);
	assert_int_equal(publish(a, 1, 999), 0);
	assert_int_equal(publish(a, 1, 1000), 1);
	allowance_change(&all, SLICE("bob"), &none);
	assert_int_equal(publish(a, 1, 1000), 10000);
	allowance_change(&all, SLICE("eve"), &slow);
	allowance_leave(a, 1000);
	assert_null(all.by_key);
}

TEST_THAT(it_is_shown_with_its_limits)
{
	const struct user_limits limits = { .connections = 2, .publish_rate = 1 },
				 none = { 0 };
	struct allowance *a = enter(ALLOWANCE_USER, "bob", &limits);
	struct allowance *eve = enter(ALLOWANCE_USER, "eve", &none);
	struct buf text = { 0 };
	struct json j = { .out = &text };
	struct error err;

	assert_int_equal(publish(a, 1, 0), 1);
	assert_int_equal(allowance_check_publish(a, 0, &err), TIDE_ELIMIT);
	json_object_begin(&j);
	allowance_write(a, &j);
	allowance_write(eve, &j);
	allowance_write(NULL, &j);
	json_object_end(&j);
	assert_buf(&text,
		   "{\"user_limits\":{\"user\":\"bob\",\"connections\":1,\"channels\":0,"
		   "\"refused\":2,\"max-connections\":2,\"publish-rate\":1}}");
	buf_deinit(&text);
	allowance_leave(a, 0);
	allowance_leave(eve, 0);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
