#include "check.h"

#include "access/user.h"

#define HASH                                            \
	"$scrypt$ln=14,r=8,p=5$AAAAAAAAAAAAAAAAAAAAAA$" \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static void assert_grant(const struct user *u, const char *vhost, const char *allowed[3])
{
	const struct user_grant *g = user_grant_find(u, slice_from(vhost));

	assert_non_null(g);
	for (int i = 0; i < USER_ACTION_COUNT; i++) {
		assert_true(user_grant_allows(g, i, slice_from(allowed[i])));
		assert_false(user_grant_allows(g, i, SLICE("other")));
	}
}

static const struct slice patterns[USER_ACTION_COUNT] = { { "^c", 2 },
							  { "^w", 2 },
							  { "^r", 2 } };

TEST_THAT(a_user_has_a_grant_for_each_vhost)
{
	const char *allowed[] = { "c", "w", "r" }, *changed[] = { "o2", "o2", "o2" };
	const struct slice others[USER_ACTION_COUNT] = { { "2", 1 },
							 { "2", 1 },
							 { "2", 1 } };
	struct user *u = user_create(SLICE("bob"));
	struct error err;

	assert_null(user_grant_find(u, SLICE("/")));
	assert_int_equal(user_grant_set(u, SLICE("shop"), patterns, &err), TIDE_OK);
	assert_int_equal(user_grant_set(u, SLICE("/"), patterns, &err), TIDE_OK);
	assert_grant(u, "/", allowed);
	assert_grant(u, "shop", allowed);
	assert_null(user_grant_find(u, SLICE("shops")));
	assert_int_equal(user_grant_set(u, SLICE("shop"), others, &err), TIDE_OK);
	assert_grant(u, "shop", changed);
	assert_grant(u, "/", allowed);
	assert_true(user_grant_remove(u, SLICE("shop")));
	assert_false(user_grant_remove(u, SLICE("shop")));
	assert_null(user_grant_find(u, SLICE("shop")));
	user_unref(u);
}

TEST_THAT(a_grant_with_a_bad_pattern_changes_nothing)
{
	const struct slice bad[USER_ACTION_COUNT] = { { "x", 1 }, { "(", 1 }, { "", 0 } };
	const char *allowed[] = { "c", "w", "r" };
	struct user *u = user_create(SLICE("bob"));
	struct error err;

	assert_int_equal(user_grant_set(u, SLICE("/"), patterns, &err), TIDE_OK);
	assert_int_equal(user_grant_set(u, SLICE("/"), bad, &err), TIDE_ESYNTAX);
	assert_grant(u, "/", allowed);
	user_unref(u);
}

TEST_THAT(admin_implies_monitor)
{
	struct user *u = user_create(SLICE("bob"));
	struct error err;

	assert_false(user_has_tag(u, USER_MONITOR));
	assert_int_equal(user_parse_tags(SLICE("monitor"), &u->tags, &err), TIDE_OK);
	assert_true(user_has_tag(u, USER_MONITOR));
	assert_false(user_has_tag(u, USER_ADMIN));
	assert_int_equal(user_parse_tags(SLICE("admin"), &u->tags, &err), TIDE_OK);
	assert_true(user_has_tag(u, USER_MONITOR));
	assert_true(user_has_tag(u, USER_ADMIN));
	assert_int_equal(user_parse_tags(SLICE("admin,chief"), &u->tags, &err),
			 TIDE_ESYNTAX);
	assert_string_equal(err.text,
			    "'chief' is no tag: expected admin, monitor, or nothing");
	assert_true(user_has_tag(u, USER_ADMIN));
	assert_int_equal(user_parse_tags(SLICE(""), &u->tags, &err), TIDE_OK);
	assert_false(user_has_tag(u, USER_MONITOR));
	user_unref(u);
}

#define TEXT                                                                           \
	"{\"password\":\"" HASH "\",\"tags\":[\"admin\",\"monitor\"],"                 \
	"\"vhosts\":{\"/\":{\"configure\":\".*\",\"write\":\"^o\\\"\",\"read\":\"\"}," \
	"\"shop\":{\"configure\":\"\",\"write\":\"\",\"read\":\"\"}},"                 \
	"\"limits\":{\"max-connections\":7,\"publish-bytes\":1048576}}"

TEST_THAT(a_user_is_read_as_it_was_written)
{
	struct user *u = NULL, *copy;
	struct buf out = { 0 };
	struct error err = { 0 };

	assert_int_equal(user_parse(SLICE("bob"), SLICE(TEXT), &u, &err), TIDE_OK);
	assert_string_equal(u->name, "bob");
	assert_string_equal(u->password, HASH);
	assert_int_equal(u->limits.connections, 7);
	user_format(u, &out);
	assert_buf(&out, TEXT);
	copy = user_copy(u);
	buf_clear(&out);
	user_format(copy, &out);
	assert_buf(&out, TEXT);
	buf_deinit(&out);
	user_unref(u);
	user_unref(copy);
}

TEST_THAT(what_is_not_there_is_nothing)
{
	struct user *u = NULL;
	struct error err;

	assert_int_equal(user_parse(SLICE("bob"), SLICE("{}"), &u, &err), TIDE_OK);
	assert_null(u->password);
	assert_int_equal(u->tags, 0);
	assert_null(user_grant_find(u, SLICE("/")));
	assert_int_equal(u->limits.publish_rate, 0);
	user_unref(u);
	assert_int_equal(
		user_parse(SLICE("bob"), SLICE("{\"vhosts\":{\"/\":{}}}"), &u, &err),
		TIDE_OK);
	assert_false(
		user_grant_allows(user_grant_find(u, SLICE("/")), USER_READ, SLICE("x")));
	user_unref(u);
}

TEST_THAT(a_text_that_says_something_else_is_refused)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{",
		"{\"password\":\"secret\"}",
		"{\"password\":7}",
		"{\"tags\":\"admin\"}",
		"{\"tags\":[\"chief\"]}",
		"{\"tags\":[],\"tags\":[\"admin\"]}",
		"{\"vhosts\":[]}",
		"{\"vhosts\":{\"/\":\".*\"}}",
		"{\"vhosts\":{\"/\":{\"read\":7}}}",
		"{\"vhosts\":{\"/\":{\"reads\":\".*\"}}}",
		"{\"vhosts\":{\"/\":{\"read\":\"(\"}}}",
		"{\"limits\":{\"max-connections\":-1}}",
		"{\"limits\":{\"max-connections\":1.5}}",
		"{\"limits\":{\"connections\":1}}",
		"{\"from\":[\"10.0.0.0/8\"]}",
	};
	struct user *u = NULL;
	struct error err;

	for (size_t i = 0; i < COUNT(texts); i++)
		assert_true(user_parse(SLICE("bob"), slice_from(texts[i]), &u, &err) < 0);
	assert_true(user_parse(SLICE("two words"), SLICE("{}"), &u, &err) < 0);
	assert_null(u);
}

TEST_THAT(tags_actions_and_limits_have_names)
{
	struct user_limits limits = { .channels = 3 };

	assert_string_equal(user_tag_name(USER_ADMIN), "admin");
	assert_string_equal(user_tag_name(USER_MONITOR), "monitor");
	assert_string_equal(user_action_name(USER_CONFIGURE), "configure");
	assert_string_equal(user_action_name(USER_READ), "read");
	assert_string_equal(user_limit_name(1), "max-channels");
	assert_int_equal(*user_limit(&limits, SLICE("max-channels")), 3);
	assert_null(user_limit_name(4));
	assert_null(user_limit(&limits, SLICE("channels")));
}

RUN_TESTS()
