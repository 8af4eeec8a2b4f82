#include "check.h"

#include "access/network.h"

static void a_port_is_cut_off(void **state)
{
	assert_slice(network_host("127.0.0.1:50412"), "127.0.0.1");
	assert_slice(network_host("[::1]:50412"), "::1");
	assert_slice(network_host("[fe80::1%eth0]:1"), "fe80::1%eth0");
}

static void a_unix_socket_has_none(void **state)
{
	assert_null(network_host("unix").data);
	assert_null(network_host("").data);
	assert_null(network_host(NULL).data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_is_cut_off),
		cmocka_unit_test(a_unix_socket_has_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
