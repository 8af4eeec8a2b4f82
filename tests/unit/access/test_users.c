#include "check.h"

#include "access/user.h"

struct heard {
	unsigned count;
	struct user *last;
	bool is_deleted;
};

static void on_change(void *ctx, struct user *changed)
{
	struct heard *h = ctx;

	h->count++;
	h->last = changed;
	h->is_deleted = changed->is_deleted;
}

static struct user *make(const char *name, unsigned tags)
{
	struct user *u = user_create(slice_from(name));

	u->tags = tags;
	return u;
}

TEST_THAT(a_change_keeps_what_others_refer_to)
{
	struct heard heard = { 0 };
	struct users us = { .on_change = on_change, .ctx = &heard };
	struct user *bob;

	users_put_take(&us, make("bob", 0));
	assert_int_equal(heard.count, 1);
	assert_int_equal(us.version, 1);
	bob = user_ref(users_find(&us, SLICE("bob")));
	users_put_take(&us, make("bob", USER_ADMIN));
	assert_ptr_equal(users_find(&us, SLICE("bob")), bob);
	assert_ptr_equal(heard.last, bob);
	assert_int_equal(heard.count, 2);
	assert_true(user_has_tag(bob, USER_ADMIN));
	assert_false(heard.is_deleted);
	user_unref(bob);
	users_deinit(&us);
}

TEST_THAT(who_was_deleted_is_told_so)
{
	struct heard heard = { 0 };
	struct users us = { .on_change = on_change, .ctx = &heard };
	struct user *bob = make("bob", 0);

	users_put_take(&us, user_ref(bob));
	assert_int_equal(users_count(&us), 1);
	assert_true(users_remove(&us, SLICE("bob")));
	assert_true(heard.is_deleted);
	assert_ptr_equal(heard.last, bob);
	assert_true(bob->is_deleted);
	assert_int_equal(users_count(&us), 0);
	assert_null(users_find(&us, SLICE("bob")));
	assert_false(users_remove(&us, SLICE("bob")));
	assert_int_equal(heard.count, 2);
	user_unref(bob);
	users_deinit(&us);
}

TEST_THAT(who_cannot_be_read_is_there_all_the_same)
{
	struct users us = { 0 };
	struct error err;

	assert_int_equal(
		users_restore(&us, SLICE("eve"), SLICE("{\"tags\":[\"admin\"]}"), &err),
		TIDE_OK);
	assert_int_equal(users_restore(&us, SLICE("bob"), SLICE("rubbish"), &err),
			 TIDE_ESYNTAX);
	assert_int_equal(users_count(&us), 2);
	assert_int_equal(users_count_admins(&us), 1);
	assert_string_equal(users_find(&us, SLICE("bob"))->unreadable,
			    "should be a JSON object");
	assert_null(users_find(&us, SLICE("eve"))->unreadable);
	users_put_take(&us, make("bob", USER_ADMIN));
	assert_null(users_find(&us, SLICE("bob"))->unreadable);
	assert_int_equal(users_count_admins(&us), 2);
	users_deinit(&us);
}

RUN_TESTS()
