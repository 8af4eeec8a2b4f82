#include "check.h"

#include "base/mem.h"
#include "cli/cli_url.h"

static void expect(const char *url, const char *vhost, const char *wanted)
{
	char *got = cli_url_with(url, vhost);

	assert_string_equal(got, wanted);
	mem_free(got);
}

TEST_THAT(the_vhost_is_replaced)
{
	expect("tide://127.0.0.1:7310/", "shop", "tide://127.0.0.1:7310/shop");
	expect("tide://127.0.0.1", "shop", "tide://127.0.0.1/shop");
	expect("tides://bob:x@[::1]:1/old", "shop", "tides://bob:x@[::1]:1/shop");
	expect("tide://h/old", "/", "tide://h/%2F");
	expect("tide+unix:/run/s", "a b", "tide+unix:/run/s?vhost=a%20b");
	expect("tide+unix:///run/s?vhost=x&user=y", "z",
	       "tide+unix:///run/s?vhost=x&user=y&vhost=z");
}

TEST_THAT(in_each_of_several_urls)
{
	expect("tide://a/x,tides://b:1,tide+unix:/s", "v",
	       "tide://a/v,tides://b:1/v,tide+unix:/s?vhost=v");
}

static void expect_cell(const char *url, unsigned cell, const char *wanted)
{
	char *got = cli_url_of_cell(url, cell);

	assert_string_equal(got, wanted);
	mem_free(got);
}

TEST_THAT(or_a_cell_takes_its_place)
{
	expect_cell("tide://h:1/x,tide://i", 2, "tide://h:1/?cell=2,tide://i/?cell=2");
	expect_cell("tide://h/?cell=1", 2, "tide://h/?cell=2");
	expect_cell("tide+unix:/s?vhost=v", 12, "tide+unix:/s?vhost=v&cell=12");
}

RUN_TESTS()
