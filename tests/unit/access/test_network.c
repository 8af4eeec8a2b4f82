#include "check.h"

#include "access/network.h"

static void assert_name(const char *peer, const char *want)
{
	char name[NETWORK_TEXT_MAX];

	network_name(peer, name);
	assert_string_equal(name, want);
}

TEST_THAT(an_address_is_known_without_its_port)
{
	assert_name("192.0.2.7:50412", "192.0.2.7");
	assert_name("unix", "unix");
	assert_name(NULL, "");
	assert_name("?", "?");
}

TEST_THAT(a_network_of_ipv6_is_one)
{
	assert_name("[2001:db8:1:2:3:4:5:6]:50412", "2001:db8:1:2::/64");
	assert_name("[2001:db8:1:2::9]:1", "2001:db8:1:2::/64");
	assert_name("[::1]:1", "::1");
	assert_name("[::ffff:192.0.2.7]:1", "::ffff:192.0.2.7");
}

RUN_TESTS()
