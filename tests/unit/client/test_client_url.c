#include "check.h"
#include "client/encode.h"

static void check(const char *text, const char *address, const char *vhost)
{
	struct client_url *u;
	struct tidemq_error err;
	size_t count;
	assert_int_equal(client_url_parse(text, &u, &count, &err), TIDEMQ_OK);
	assert_int_equal(count, 1);
	char got[URL_ADDRESS_MAX];
	url_address(&u->at, got);
	assert_string_equal(got, address);
	assert_string_equal(u->vhost, vhost);
	client_url_free(u, count);
}

static void check_bad(const char *text, const char *sentence)
{
	struct client_url *u;
	struct tidemq_error err;
	size_t count;
	assert_int_equal(client_url_parse(text, &u, &count, &err), TIDEMQ_EINVAL);
	assert_non_null(strstr(err.text, sentence));
	assert_null(strstr(err.text, "secret"));
	assert_null(u);
	assert_int_equal(count, 0);
}

static void check_user(const char *text, const char *user, const char *password)
{
	struct client_url *u;
	size_t count;
	assert_int_equal(client_url_parse(text, &u, &count, NULL), TIDEMQ_OK);
	assert_string_equal(u->at.user, user);
	assert_string_equal(u->at.password, password);
	client_url_free(u, count);
}

TEST_THAT(a_host_has_the_default_port_and_vhost)
{
	check("tide://localhost", "localhost:7310", "/");
	check("tide://localhost/", "localhost:7310", "/");
	check("tide://10.0.0.1:99/shop", "10.0.0.1:99", "shop");
	check("tide://h/%2F", "h:7310", "/");
	check("tides://h:1/v", "h:1", "v");
	check("tides://[::1]", "[::1]:7310", "/");
}

TEST_THAT(an_ipv6_address_stands_in_brackets)
{
	check("tide://[::1]/", "[::1]:7310", "/");
	check("tide://[::1]:80/v", "[::1]:80", "v");
	check("tide://[fe80::1%eth0]:80/v", "[fe80::1%eth0]:80", "v");
	check("tide://[fe80::1%25eth0]/", "[fe80::1%eth0]:7310", "/");
	check("tide://[fe80::1%12]/", "[fe80::1%12]:7310", "/");
	check_bad("tide://[::1/", "no ]");
	check_bad("tide://[::1]80/", "expected :port after the host");
}

TEST_THAT(user_and_password_are_decoded)
{
	check_user("tide://m%40x:p@ss:w@h/", "m@x", "p@ss:w");
	check_user("tide://u:a,b@h/", "u", "a,b");
	check_bad("tide://a%00b@h/", "user");
	check_bad("tide://:p@h/", "user");
}

TEST_THAT(a_socket_is_a_path_with_options)
{
	check("tide+unix:/run/tide.sock", "/run/tide.sock", "/");
	check("tide+unix:///run/tide.sock", "/run/tide.sock", "/");
	check("tide+unix:/a%20b?vhost=shop", "/a b", "shop");
	check("tide+unix:rel?vhost=a&vhost=b", "rel", "b");
	check("tide+unix:a@b/s", "a@b/s", "/");
	check_user("tide+unix:/s?user=u&pass=p", "u", "p");
	check_bad("tide+unix:", "no socket");
	check_bad("tide+unix:/s?colour=red", "colour");
}

TEST_THAT(several_urls_have_commas_between_them)
{
	struct client_url *u;
	size_t count;
	assert_int_equal(
		client_url_parse("tide://a:1/v,tide+unix:/s,x?vhost=w,tide://u:p,"
				 "q@[::1]/",
				 &u, &count, NULL),
		TIDEMQ_OK);
	assert_int_equal(count, 3);
	assert_string_equal(u[0].at.host, "a");
	assert_string_equal(u[0].vhost, "v");
	assert_string_equal(u[1].at.path, "/s,x");
	assert_string_equal(u[1].vhost, "w");
	assert_string_equal(u[2].at.password, "p,q");
	assert_string_equal(u[2].at.host, "::1");
	client_url_free(u, count);
	check("tide://a/,", "a:7310", "/");
	assert_int_equal(
		client_url_parse("tides://a:1/v,tide://b,tides://c", &u, &count, NULL),
		TIDEMQ_OK);
	assert_int_equal(count, 3);
	assert_true(u[0].is_tls && !u[1].is_tls && u[2].is_tls);
	client_url_free(u, count);
	check_bad("tide://a/,tide://", "no host");
	check_bad("tide://a/,http://b/", "vhost");
}

TEST_THAT(no_password_is_shown)
{
	check_bad("tidy://u:secret@h/", "'tidy' must begin");
	check_bad("tides://u:secret@h/a:b", "vhost");
	check_bad("tide://u:secret@h/a:b", "vhost");
	check_bad("tide://u:secret/part@h/", "port");
	check_bad("tide://u:secret@h:x/", "port");
}

TEST_THAT(wrong_urls_are_refused)
{
	check_bad("", "must begin");
	check_bad("http://h/", "must begin");
	check_bad("tide:///", "no host");
	check_bad("tide://h:0/", "port");
	check_bad("tide://h:65536/", "port");
	check_bad("tide://h:/", "port");
	check_bad("tide://h/a:b", "vhost");
	check_bad("tide://h/a%2Fb", "vhost");
	check_bad("tide://h/%zz", "vhost");
	check_bad("tide://h/%00", "vhost");
}

RUN_TESTS()
