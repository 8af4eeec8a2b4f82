#include "check.h"

#include <stdio.h>

#include "access/login.h"

static void assert_key(const char *address, bool is_local, const char *want)
{
	struct buf key = { 0 };

	login_delay_key(&key, address, is_local, SLICE("bob"));
	assert_buf(&key, want);
	buf_deinit(&key);
}

TEST_THAT(an_address_is_known_without_its_port)
{
	assert_key("192.0.2.7:50412", false, "192.0.2.7");
	assert_key("127.0.0.1:50412", true, "127.0.0.1 bob");
	assert_key("unix", true, "unix bob");
	assert_key(NULL, false, "");
}

TEST_THAT(a_network_of_ipv6_is_one_address)
{
	struct buf a = { 0 }, b = { 0 }, c = { 0 };

	login_delay_key(&a, "[2001:db8:1:2::3]:50412", false, SLICE("bob"));
	login_delay_key(&b, "[2001:db8:1:2:ffff::4]:1", false, SLICE("eve"));
	login_delay_key(&c, "[2001:db8:1:3::3]:50412", false, SLICE("bob"));
	assert_buf(&a, "2001:db8:1:2::/64");
	assert_true(slice_is_equal(buf_slice(&a), buf_slice(&b)));
	assert_false(slice_is_equal(buf_slice(&a), buf_slice(&c)));
	buf_clear(&a);
	buf_clear(&b);
	login_delay_key(&a, "[::ffff:192.0.2.7]:1", false, SLICE("bob"));
	login_delay_key(&b, "[::ffff:192.0.2.8]:1", false, SLICE("bob"));
	assert_false(slice_is_equal(buf_slice(&a), buf_slice(&b)));
	buf_deinit(&a);
	buf_deinit(&b);
	buf_deinit(&c);
}

TEST_THAT(a_delay_doubles_up_to_its_limit_and_is_forgotten)
{
	static const int64_t delays[] = { 250, 500, 1000, 2000, 4000, 8000, 8000 };
	struct login_delays d;
	int64_t now_ms = 1000;

	login_delay_init(&d);
	assert_int_equal(login_delay_until_ms(&d, SLICE("a"), now_ms), 0);
	for (size_t i = 0; i < COUNT(delays); i++) {
		assert_int_equal(login_delay_add(&d, SLICE("a"), now_ms), delays[i]);
		assert_int_equal(login_delay_until_ms(&d, SLICE("a"), now_ms),
				 now_ms + delays[i]);
		now_ms += delays[i];
		assert_int_equal(login_delay_until_ms(&d, SLICE("a"), now_ms), 0);
	}
	assert_int_equal(login_delay_add(&d, SLICE("b"), now_ms), 250);
	now_ms += LOGIN_DELAY_FORGET_MS - 1;
	assert_int_equal(login_delay_add(&d, SLICE("a"), now_ms), 8000);
	now_ms += 8000 + LOGIN_DELAY_FORGET_MS;
	assert_int_equal(login_delay_add(&d, SLICE("a"), now_ms), 250);
	login_delay_deinit(&d);
}

TEST_THAT(so_many_are_known_at_most)
{
	struct login_delays d;
	char name[32];

	login_delay_init(&d);
	for (int i = 0; i < LOGIN_DELAY_ENTRIES_MAX + 10; i++) {
		snprintf(name, sizeof(name), "%d", i);
		login_delay_add(&d, slice_from(name), 1000);
	}
	assert_int_equal(login_delay_until_ms(&d, SLICE("9"), 1000), 0);
	assert_int_equal(login_delay_until_ms(&d, SLICE("10"), 1000), 1250);
	assert_int_equal(login_delay_until_ms(&d, SLICE("20009"), 1000), 1250);
	login_delay_deinit(&d);
}

RUN_TESTS()
