#include "check.h"

#include "access/network.h"

TEST_THAT(a_port_is_cut_off)
{
	assert_slice(network_host("127.0.0.1:50412"), "127.0.0.1");
	assert_slice(network_host("[::1]:50412"), "::1");
	assert_slice(network_host("[fe80::1%eth0]:1"), "fe80::1%eth0");
}

TEST_THAT(a_unix_socket_has_none)
{
	assert_null(network_host("unix").data);
	assert_null(network_host("").data);
	assert_null(network_host(NULL).data);
}

RUN_TESTS()
