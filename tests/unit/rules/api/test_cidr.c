
#include "check.h"

#include <string.h>

#include "rules/api/cidr.h"

static const struct {
	const char *network, *address;
	bool is_in;
} cases[] = {
	{ "10.0.0.0/8", "10.255.3.4", true },
	{ "10.0.0.0/8", "11.0.0.0", false },
	{ "10.0.0.0/8", "::ffff:10.1.2.3", true },
	{ "::ffff:10.0.0.0/104", "10.1.2.3", true },
	{ "::ffff:10.0.0.0/104", "11.1.2.3", false },
	{ "192.168.4.0/23", "192.168.5.255", true },
	{ "192.168.4.0/23", "192.168.6.0", false },
	{ "192.0.2.1", "192.0.2.1", true },
	{ "192.0.2.1", "192.0.2.2", false },
	{ "0.0.0.0/0", "255.255.255.255", true },
	{ "0.0.0.0/0", "::1", false },
	{ "0.0.0.0/0", "2001:db8::1", false },
	{ "::/0", "2001:db8::1", true },
	{ "::/0", "10.1.2.3", false },
	{ "::/0", "::ffff:10.1.2.3", false },
	{ "fd00::/8", "fdff::1", true },
	{ "fd00::/8", "fe00::1", false },
	{ "2001:db8::/33", "2001:db8:7fff::1", true },
	{ "2001:db8::/33", "2001:db8:8000::1", false },
	{ "fe80::/10", "fe80::1%eth0", true },
	{ "::1", "::1", true },
	{ "::1/128", "::2", false },
};

TEST_THAT(an_address_is_in_the_networks_that_begin_as_it_does)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cidr c;
		struct cidr_address a;
		struct error err;

		if (cidr_parse(slice_from(cases[i].network), &c, &err) != TIDE_OK)
			fail_msg("%s: %s", cases[i].network, err.text);
		assert_true(cidr_read_address(slice_from(cases[i].address), &a));
		if (cidr_has(&c, &a) != cases[i].is_in)
			fail_msg("%s in %s", cases[i].address, cases[i].network);
	}
}

static const char *const wrong_networks[][2] = {
	{ "", "'' is not a network; write 10.0.0.0/8, fd00::/8, or an address" },
	{ "10.0.0/8",
	  "'10.0.0/8' is not a network; write 10.0.0.0/8, fd00::/8, or an address" },
	{ "localhost",
	  "'localhost' is not a network; write 10.0.0.0/8, fd00::/8, or an address" },
	{ "fe80::1%eth0/64", "'fe80::1%eth0/64' is not a network; write 10.0.0.0/8, "
			     "fd00::/8, or an address" },
	{ "10.0.0.0/", "the prefix of '10.0.0.0/' must be a number from 0 to 32" },
	{ "10.0.0.0/33", "the prefix of '10.0.0.0/33' must be a number from 0 to 32" },
	{ "10.0.0.0/-1", "the prefix of '10.0.0.0/-1' must be a number from 0 to 32" },
	{ "10.0.0.0/8/8", "the prefix of '10.0.0.0/8/8' must be a number from 0 to 32" },
	{ "::/129", "the prefix of '::/129' must be a number from 0 to 128" },
	{ "10.0.0.1/8",
	  "'10.0.0.1/8' has bits behind its prefix; the network is 10.0.0.0/8" },
	{ "fd00::1/9",
	  "'fd00::1/9' has bits behind its prefix; the network is fd00::/9" },
};

TEST_THAT(a_wrong_network_is_refused_with_a_sentence)
{
	for (size_t i = 0; i < sizeof(wrong_networks) / sizeof(wrong_networks[0]); i++) {
		struct cidr c;
		struct error err;

		assert_int_equal(cidr_parse(slice_from(wrong_networks[i][0]), &c, &err),
				 TIDE_ESYNTAX);
		assert_string_equal(err.text, wrong_networks[i][1]);
	}
}

TEST_THAT(what_is_no_address_is_none)
{
	static const char *const texts[] = { "",          "10.1.2",    "10.1.2.3:80",
					     "[::1]",     "unix",      "10.1.2.3 ",
					     "::1::",     "1.2.3.4.5", "%eth0",
					     "10.1.2.256" };
	struct cidr_address a;
	char long_one[100];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (cidr_read_address(slice_from(texts[i]), &a))
			fail_msg("'%s' is an address", texts[i]);
	memset(long_one, '1', sizeof(long_one));
	assert_false(cidr_read_address((struct slice){ long_one, sizeof(long_one) }, &a));
	assert_false(cidr_read_address((struct slice){ "::1\0::", 6 }, &a));
	assert_false(cidr_read_address((struct slice){ NULL, 0 }, &a));
}

RUN_TESTS()
