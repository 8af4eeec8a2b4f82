#include "check.h"
#include <string.h>

#include "store/redis_url.h"

struct url_case {
	const char *text;
	enum redis_url_kind kind;
	const char *host;
	unsigned port;
	const char *path;
	const char *user;
	const char *password;
	unsigned db;
};

static void assert_text(const char *got, const char *want)
{
	if (!want)
		assert_null(got);
	else
		assert_string_equal(got, want);
}

TEST_THAT(good_urls_are_taken_apart)
{
	static const struct url_case cases[] = {
		{ "none", REDIS_URL_NONE, NULL, 0, NULL, NULL, NULL, 0 },
		{ "embedded", REDIS_URL_EMBEDDED, NULL, 0, NULL, NULL, NULL, 0 },
		{ "redis://h", REDIS_URL_TCP, "h", 6379, NULL, NULL, NULL, 0 },
		{ "redis://h/", REDIS_URL_TCP, "h", 6379, NULL, NULL, NULL, 0 },
		{ "redis://h:1/15", REDIS_URL_TCP, "h", 1, NULL, NULL, NULL, 15 },
		{ "redis://:p@h:65535", REDIS_URL_TCP, "h", 65535, NULL, NULL, "p", 0 },
		{ "redis://u:p%40%3a%2F@h", REDIS_URL_TCP, "h", 6379, NULL, "u", "p@:/",
		  0 },
		{ "redis://u%3A:p@q@h/3", REDIS_URL_TCP, "h", 6379, NULL, "u:", "p@q",
		  3 },
		{ "redis://u:p@h:1,i,[::1]:3", REDIS_URL_TCP, "h", 1, NULL, "u", "p", 0 },
		{ "redis://u:a:b@h", REDIS_URL_TCP, "h", 6379, NULL, "u", "a:b", 0 },
		{ "redis://[::1]", REDIS_URL_TCP, "::1", 6379, NULL, NULL, NULL, 0 },
		{ "redis://[fe80::1]:7/2", REDIS_URL_TCP, "fe80::1", 7, NULL, NULL, NULL,
		  2 },
		{ "redis+unix:/r.sock", REDIS_URL_UNIX, NULL, 0, "/r.sock", NULL, NULL,
		  0 },
		{ "redis+unix:///r.sock", REDIS_URL_UNIX, NULL, 0, "/r.sock", NULL, NULL,
		  0 },
		{ "redis+unix:u:p@/a%20b?db=4", REDIS_URL_UNIX, NULL, 0, "/a b", "u", "p",
		  4 },
		{ "redis+unix:u:p?q@/a", REDIS_URL_UNIX, NULL, 0, "/a", "u", "p?q", 0 },
		{ "redis+unix:/a@b", REDIS_URL_UNIX, NULL, 0, "/a@b", NULL, NULL, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct url_case *c = &cases[i];
		struct redis_url url;
		struct error err;
		if (redis_url_parse(c->text, &url, &err) < 0)
			fail_msg("%s: %s", c->text, err.text);
		assert_int_equal(url.kind, c->kind);
		assert_text(url.at.host, c->host);
		assert_int_equal(url.at.port, c->port);
		assert_text(url.at.path, c->path);
		assert_text(url.at.user, c->user);
		assert_text(url.at.password, c->password);
		assert_int_equal(url.db, c->db);
		redis_url_deinit(&url);
	}
}

TEST_THAT(nodes_of_a_cluster_are_hosts_with_commas)
{
	struct redis_url url;
	struct error err;

	assert_int_equal(redis_url_parse("redis://:p@h:1,i,[::1]:3", &url, &err),
			 TIDE_OK);
	assert_int_equal(url.host_count, 3);
	assert_string_equal(url.hosts[1].host, "i");
	assert_int_equal(url.hosts[1].port, 6379);
	assert_string_equal(url.hosts[2].host, "::1");
	assert_int_equal(url.hosts[2].port, 3);
	assert_null(url.hosts[0].password);
	redis_url_deinit(&url);
}

TEST_THAT(a_url_with_tls_names_files)
{
	struct redis_url url;
	struct error err;

	assert_int_equal(redis_url_parse("rediss://u:p?q@h:7/2?ca=/a%20b&cert=c&key=k",
					 &url, &err),
			 TIDE_OK);
	assert_true(url.is_tls);
	assert_int_equal(url.kind, REDIS_URL_TCP);
	assert_string_equal(url.at.host, "h");
	assert_int_equal(url.at.port, 7);
	assert_string_equal(url.at.password, "p?q");
	assert_int_equal(url.db, 2);
	assert_string_equal(url.ca, "/a b");
	assert_string_equal(url.cert, "c");
	assert_string_equal(url.key, "k");
	redis_url_deinit(&url);
	assert_int_equal(redis_url_parse("rediss://h", &url, &err), TIDE_OK);
	assert_true(url.is_tls);
	assert_int_equal(url.at.port, 6379);
	assert_null(url.ca);
	redis_url_deinit(&url);
}

TEST_THAT(a_url_of_sentinels_names_them_and_the_redis)
{
	struct redis_url url;
	struct error err;

	assert_int_equal(
		redis_url_parse("redis+sentinel://u:p,q?r@h1,[::1]:7,h3:8/my%20name/2"
				"?sentinel-user=s&sentinel-password=t%40",
				&url, &err),
		TIDE_OK);
	assert_int_equal(url.kind, REDIS_URL_SENTINEL);
	assert_false(url.is_tls);
	assert_null(url.at.host);
	assert_string_equal(url.at.user, "u");
	assert_string_equal(url.at.password, "p,q?r");
	assert_int_equal(url.host_count, 3);
	assert_string_equal(url.hosts[0].host, "h1");
	assert_int_equal(url.hosts[0].port, 26379);
	assert_null(url.hosts[0].password);
	assert_string_equal(url.hosts[1].host, "::1");
	assert_int_equal(url.hosts[1].port, 7);
	assert_int_equal(url.hosts[2].port, 8);
	assert_string_equal(url.name, "my name");
	assert_int_equal(url.db, 2);
	assert_string_equal(url.sentinel_user, "s");
	assert_string_equal(url.sentinel_password, "t@");
	redis_url_deinit(&url);
	assert_int_equal(redis_url_parse("rediss+sentinel://h/n?ca=/c", &url, &err),
			 TIDE_OK);
	assert_true(url.is_tls);
	assert_string_equal(url.ca, "/c");
	assert_string_equal(url.name, "n");
	redis_url_deinit(&url);
}

TEST_THAT(bad_urls_are_refused_and_say_why)
{
	static const char *const cases[][2] = {
		{ "", "--store: give embedded, none" },
		{ "Embedded", "--store: give embedded, none" },
		{ "http://h", "--store: give embedded, none" },
		{ "rediss:h", "--store: give embedded, none" },
		{ "rediss://h?ca", "the option 'ca' needs the path of a file" },
		{ "rediss://h?db=1", "the option 'db' is not one of ca, cert, key" },
		{ "rediss://h/x?ca=/a", "database" },
		{ "rediss://h?cert=/a", "cert and key belong together" },
		{ "rediss://u:secret@h?key=/a&ca=/b", "cert and key belong together" },
		{ "redis://h?ca=/a", "database" },
		{ "redis://", "no host" },
		{ "redis://:7", "no host" },
		{ "redis:///1", "no host" },
		{ "redis://h:0", "port" },
		{ "redis://h:65536", "port" },
		{ "redis://h:", "port" },
		{ "redis://h:x", "port" },
		{ "redis://[::1", "no ]" },
		{ "redis://[::1]7", "expected :port after the host" },
		{ "redis://h/x", "database" },
		{ "redis://h/-1", "database" },
		{ "redis://h/1048576", "database" },
		{ "redis://secret@h", "before the @" },
		{ "redis://u:secret%4@h", "hex digits" },
		{ "redis://u:secret%00@h", "hex digits" },
		{ "redis://h%", "hex digits" },
		{ "redis+sentinel:h", "--store: give embedded, none" },
		{ "redis+sentinel://", "no host" },
		{ "redis+sentinel://h,,i/n", "no host" },
		{ "redis+sentinel://h", "the name that the Sentinels give" },
		{ "redis+sentinel://h/", "the name that the Sentinels give" },
		{ "redis+sentinel://h/n/x", "database" },
		{ "redis+sentinel://h/n?ca=/a", "not one of sentinel-user" },
		{ "redis+sentinel://h/n?sentinel-password", "needs a value" },
		{ "redis+sentinel://h/n?sentinel-user=u", "needs sentinel-password" },
		{ "redis+sentinel://secret@h/n", "before the @" },
		{ "redis+sentinel://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/n", "at most 16" },
		{ "rediss+sentinel://h/n?x=secret&y",
		  "'x' is not one of ca, cert, key, " },
		{ "redis+unix:", "absolute path" },
		{ "redis+unix:r.sock", "absolute path" },
		{ "redis+unix:/r.sock?x=1", "db=N" },
		{ "redis+unix:/r.sock?db=", "database" },
		{ "redis+unix:/%zz", "hex digits" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct redis_url url;
		struct error err = { 0, "" };
		if (redis_url_parse(cases[i][0], &url, &err) == TIDE_OK)
			fail_msg("%s was taken", cases[i][0]);
		if (!strstr(err.text, cases[i][1]))
			fail_msg("%s: %s", cases[i][0], err.text);
		assert_null(strstr(err.text, "secret"));
	}
}

TEST_THAT(overlong_socket_path_is_refused)
{
	char text[200] = "redis+unix:/";
	struct redis_url url;
	struct error err;
	memset(text + strlen(text), 'x', 106);
	assert_int_equal(redis_url_parse(text, &url, &err), TIDE_OK);
	redis_url_deinit(&url);
	strcat(text, "x");
	assert_int_equal(redis_url_parse(text, &url, &err), TIDE_ETOOLONG);
}

RUN_TESTS()
