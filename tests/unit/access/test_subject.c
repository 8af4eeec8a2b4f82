#include "check.h"

#include <stdio.h>

#include "access/subject.h"

static struct subject_env env;

static struct user *make_user(const char *configure, const char *write, const char *read)
{
	const struct slice patterns[USER_ACTION_COUNT] = {
		[USER_CONFIGURE] = slice_from(configure),
		[USER_WRITE] = slice_from(write),
		[USER_READ] = slice_from(read),
	};
	struct user *u = user_create(SLICE("bob"));
	struct error err;

	assert_int_equal(user_grant_set(u, SLICE("/"), patterns, &err), TIDE_OK);
	return u;
}

/* What the subject of a user is denied, or "" when it is not. */
static const char *ask(struct subject *s, enum user_action action, enum subject_kind kind,
		       const char *name)
{
	static struct error err;

	err.text[0] = '\0';
	if (subject_check(s, action, kind, slice_from(name), &err) == TIDE_OK)
		return "";
	assert_int_equal(err.code, TIDE_EDENIED);
	return err.text;
}

TEST_THAT(who_is_nobody_may_do_all)
{
	struct subject s;
	struct error err;

	subject_init(&s, &env, SLICE("/"));
	assert_true(subject_is_free(&s));
	assert_true(subject_is_free(NULL));
	assert_string_equal(ask(&s, USER_WRITE, SUBJECT_EXCHANGE, "x"), "");
	assert_string_equal(ask(NULL, USER_WRITE, SUBJECT_EXCHANGE, "x"), "");
	assert_true(subject_may_all(&s, USER_WRITE));
	assert_int_equal(subject_check_tag(&s, USER_ADMIN, "DRAIN", &err), TIDE_OK);
	subject_deinit(&s);
}

TEST_THAT(who_is_nobody_may_do_nothing_when_all_must_log_in)
{
	struct subject s;
	struct error err;

	subject_init(&s, &env, SLICE("/"));
	env.must_log_in = true;
	assert_string_equal(ask(&s, USER_WRITE, SUBJECT_EXCHANGE, "x"), "log in first");
	assert_false(subject_may_all(&s, USER_WRITE));
	assert_int_equal(subject_check_tag(&s, USER_MONITOR, "LIST", &err), TIDE_EDENIED);
	/* The broker's own work goes on. */
	assert_string_equal(ask(NULL, USER_WRITE, SUBJECT_EXCHANGE, "x"), "");
	env.must_log_in = false;
	assert_string_equal(ask(&s, USER_WRITE, SUBJECT_EXCHANGE, "x"), "");
	subject_deinit(&s);
}

TEST_THAT(each_action_goes_by_its_pattern)
{
	struct user *u = make_user("^own-", "^orders", "");
	struct subject s;

	subject_init(&s, &env, SLICE("/"));
	subject_set_user(&s, u);
	assert_string_equal(ask(&s, USER_CONFIGURE, SUBJECT_QUEUE, "own-q"), "");
	assert_string_equal(ask(&s, USER_WRITE, SUBJECT_EXCHANGE, "orders.eu"), "");
	assert_string_equal(ask(&s, USER_WRITE, SUBJECT_EXCHANGE, "own-x"),
			    "user 'bob' may not write to exchange 'own-x' in vhost '/'");
	assert_string_equal(
		ask(&s, USER_READ, SUBJECT_QUEUE, "orders"),
		"user 'bob' may not read from queue or topic 'orders' in vhost '/'");
	assert_string_equal(
		ask(&s, USER_READ, SUBJECT_TOPIC, "orders"),
		"user 'bob' may not read from queue or topic 'orders' in vhost '/'");
	assert_string_equal(ask(&s, USER_CONFIGURE, SUBJECT_LOCK, "orders"),
			    "user 'bob' may not configure lock 'orders' in vhost '/'");
	user_unref(u);
	subject_deinit(&s);
}

TEST_THAT(a_vhost_without_a_grant_is_closed)
{
	struct user *u = make_user(".*", ".*", ".*");
	struct subject s;

	subject_init(&s, &env, SLICE("/"));
	subject_set_user(&s, u);
	assert_string_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "q"), "");
	assert_true(subject_may_all(&s, USER_READ));
	subject_set_vhost(&s, SLICE("other"));
	assert_string_equal(
		ask(&s, USER_READ, SUBJECT_QUEUE, "q"),
		"user 'bob' may not read from queue or topic 'q' in vhost 'other'");
	assert_false(subject_may_all(&s, USER_READ));
	user_unref(u);
	subject_deinit(&s);
}

TEST_THAT(all_is_allowed_by_a_pattern_for_all_alone)
{
	struct user *u = make_user("^", ".*", "a|.*");
	struct subject s;

	subject_init(&s, &env, SLICE("/"));
	subject_set_user(&s, u);
	assert_true(subject_may_all(&s, USER_WRITE));
	assert_false(subject_may_all(&s, USER_READ));
	assert_string_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "q"), "");
	user_unref(u);
	subject_deinit(&s);
}

static void set_read(struct user *u, const char *read)
{
	const struct slice patterns[USER_ACTION_COUNT] = { SLICE(""), SLICE(""),
							   slice_from(read) };
	struct error err;

	assert_int_equal(user_grant_set(u, SLICE("/"), patterns, &err), TIDE_OK);
}

TEST_THAT(what_was_allowed_holds_until_something_changes)
{
	struct user *u = make_user("", "", "^q");
	struct subject s;

	subject_init(&s, &env, SLICE("/"));
	subject_set_user(&s, u);
	assert_string_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "q1"), "");
	set_read(u, "^r");
	assert_string_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "q1"), "");
	assert_string_not_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "q2"), "");
	/* What was refused is asked about each time. */
	assert_string_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "r1"), "");
	env.version++;
	assert_string_not_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "q1"), "");
	assert_string_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "r1"), "");
	user_unref(u);
	subject_deinit(&s);
}

/* More names than are remembered, some with the same place. */
TEST_THAT(many_names_are_told_apart)
{
	struct user *u = make_user("", "7$", "[0-4]$");
	struct subject s;
	char name[16];

	subject_init(&s, &env, SLICE("/"));
	subject_set_user(&s, u);
	for (int i = 0; i < 3000; i++) {
		int n = i * 7919 % 500;

		snprintf(name, sizeof(name), "n%d", n);
		assert_int_equal(ask(&s, USER_READ, SUBJECT_QUEUE, name)[0] == '\0',
				 n % 10 <= 4);
		assert_int_equal(ask(&s, USER_WRITE, SUBJECT_QUEUE, name)[0] == '\0',
				 n % 10 == 7);
	}
	user_unref(u);
	subject_deinit(&s);
}

TEST_THAT(a_deleted_user_may_do_nothing)
{
	struct user *u = make_user(".*", ".*", ".*");
	struct subject s;
	struct error err;

	u->tags = USER_ADMIN;
	subject_init(&s, &env, SLICE("/"));
	subject_set_user(&s, u);
	u->is_deleted = true;
	assert_string_equal(ask(&s, USER_READ, SUBJECT_QUEUE, "q"),
			    "user 'bob' was deleted");
	assert_false(subject_may_all(&s, USER_READ));
	assert_int_equal(subject_check_tag(&s, USER_ADMIN, "DRAIN", &err), TIDE_EDENIED);
	user_unref(u);
	subject_deinit(&s);
}

TEST_THAT(tags_are_asked_for)
{
	struct user *u = make_user(".*", ".*", ".*");
	struct subject s;
	struct error err;

	subject_init(&s, &env, SLICE("/"));
	subject_set_user(&s, u);
	assert_int_equal(subject_check_tag(&s, USER_MONITOR, "LIST", &err), TIDE_EDENIED);
	assert_string_equal(
		err.text,
		"LIST needs a user with the tag monitor, and user 'bob' has not");
	u->tags = USER_MONITOR;
	assert_int_equal(subject_check_tag(&s, USER_MONITOR, "LIST", &err), TIDE_OK);
	assert_int_equal(subject_check_tag(&s, USER_ADMIN, "KILL", &err), TIDE_EDENIED);
	u->tags = USER_ADMIN;
	assert_int_equal(subject_check_tag(&s, USER_MONITOR, "LIST", &err), TIDE_OK);
	user_unref(u);
	subject_deinit(&s);
}

TEST_THAT(a_copy_outlives_its_original)
{
	struct user *u = make_user("", "^x$", "");
	struct subject s, copy;

	subject_init(&s, &env, SLICE("/"));
	subject_set_user(&s, u);
	subject_set_address(&s, "127.0.0.1:5");
	subject_copy(&copy, &s);
	subject_deinit(&s);
	user_unref(u);
	assert_string_equal(copy.address, "127.0.0.1");
	assert_string_equal(ask(&copy, USER_WRITE, SUBJECT_EXCHANGE, "x"), "");
	assert_string_not_equal(ask(&copy, USER_WRITE, SUBJECT_EXCHANGE, "y"), "");
	subject_deinit(&copy);
}

TEST_THAT(an_address_has_no_port)
{
	struct subject s;

	subject_init(&s, &env, SLICE("/"));
	subject_set_address(&s, "[2001:db8::1]:50412");
	assert_string_equal(s.address, "2001:db8::1");
	subject_set_address(&s, "10.0.0.1:50412");
	assert_string_equal(s.address, "10.0.0.1");
	subject_set_address(&s, "unix");
	assert_null(s.address);
	subject_set_address(&s, NULL);
	assert_null(s.address);
	subject_deinit(&s);
}

RUN_TESTS()
