#include "check.h"

#include <stdlib.h>

#include "access/user_change.h"

struct rig {
	uv_loop_t loop;
	struct password_work work;
	struct users users;
	struct user_changes changes;
};

struct outcome {
	unsigned count;
	int status;
	char text[ERROR_TEXT_MAX];
};

static void on_done(void *ctx, struct user *user, int status, const char *text)
{
	struct outcome *o = ctx;

	o->count++;
	o->status = status;
	strncpy(o->text, text ? text : "", sizeof(o->text) - 1);
	assert_true((user != NULL) == (status == TIDE_OK));
}

static int setup(void **state)
{
	static struct rig rig;

	rig = (struct rig){ 0 };
	assert_int_equal(uv_loop_init(&rig.loop), 0);
	password_work_init(&rig.work, &rig.loop);
	user_change_init(&rig.changes, &rig.users, &rig.work);
	*state = &rig;
	return 0;
}

static void on_closed(void *ctx)
{
	++*(unsigned *)ctx;
}

static int teardown(void **state)
{
	struct rig *r = *state;
	unsigned closed = 0;

	r->changes.is_closing = true;
	password_work_close(&r->work, on_closed, &closed);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(closed, 1);
	user_change_deinit(&r->changes);
	users_deinit(&r->users);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	return 0;
}

static void settle(struct rig *r)
{
	while (r->work.running > 0)
		uv_run(&r->loop, UV_RUN_ONCE);
}

static struct user_change_spec spec_of(enum user_change_kind kind, const char *name,
				       struct outcome *o)
{
	return (struct user_change_spec){
		.kind = kind, .name = slice_from(name), .on_done = on_done, .ctx = o
	};
}

static struct user *add_admin(struct rig *r, const char *name)
{
	struct user *u = user_create(slice_from(name));

	u->tags = USER_ADMIN;
	users_put_take(&r->users, u);
	return u;
}

TEST_THAT(one_comes_after_the_other)
{
	struct rig *r = *state;
	struct outcome first = { 0 }, second = { 0 };
	struct user_change_spec spec = spec_of(USER_CHANGE_ADD, "bob", &first);

	spec.author = add_admin(r, "alice");
	spec.password = SLICE("secret");
	user_change_start(&r->changes, &spec);
	spec = spec_of(USER_CHANGE_ADD, "bob", &second);
	spec.author = users_find(&r->users, SLICE("alice"));
	user_change_start(&r->changes, &spec);
	assert_int_equal(first.count + second.count, 0);
	settle(r);
	assert_int_equal(first.status, TIDE_OK);
	assert_int_equal(second.count, 1);
	assert_int_equal(second.status, TIDE_EEXISTS);
	assert_true(password_is_right(SLICE("secret"),
				      users_find(&r->users, SLICE("bob"))->password));
}

TEST_THAT(who_asked_is_asked_for_when_its_turn_comes)
{
	struct rig *r = *state;
	struct outcome first = { 0 }, second = { 0 }, third = { 0 };
	struct user_change_spec spec = spec_of(USER_CHANGE_ADD, "alice", &first);

	spec.password = SLICE("secret");
	spec.tags = SLICE("admin");
	user_change_start(&r->changes, &spec);
	/* Nobody else is there yet. */
	spec = spec_of(USER_CHANGE_ADD, "bob", &second);
	spec.password = SLICE("secret");
	spec.tags = SLICE("admin");
	user_change_start(&r->changes, &spec);
	settle(r);
	assert_int_equal(first.status, TIDE_OK);
	assert_int_equal(second.status, TIDE_EDENIED);
	/* An admin who has lost the tag since. */
	spec = spec_of(USER_CHANGE_DELETE, "alice", &third);
	spec.author = user_create(SLICE("eve"));
	user_change_start(&r->changes, &spec);
	assert_int_equal(third.status, TIDE_EDENIED);
	assert_int_equal(users_count(&r->users), 1);
	user_unref(spec.author);
}

TEST_THAT(many_that_fail_do_not_call_each_other)
{
	struct rig *r = *state;
	struct outcome slow = { 0 }, o = { 0 };
	struct user *alice = add_admin(r, "alice");
	struct user_change_spec spec = spec_of(USER_CHANGE_PASSWORD, "alice", &slow);

	spec.author = alice;
	spec.password = SLICE("secret");
	user_change_start(&r->changes, &spec);
	spec = spec_of(USER_CHANGE_DELETE, "nobody", &o);
	spec.author = alice;
	for (int i = 0; i < 200000; i++)
		user_change_start(&r->changes, &spec);
	settle(r);
	assert_int_equal(slow.count, 1);
	assert_int_equal(o.count, 200000);
	assert_int_equal(o.status, TIDE_ENOTFOUND);
}

TEST_THAT(what_is_left_at_the_end_is_told_so)
{
	struct rig *r = *state;
	struct outcome o = { 0 };
	struct user_change_spec spec = spec_of(USER_CHANGE_PASSWORD, "alice", &o);

	spec.author = add_admin(r, "alice");
	spec.password = SLICE("secret");
	user_change_start(&r->changes, &spec);
	user_change_start(&r->changes, &spec);
	r->changes.is_closing = true;
	settle(r);
	assert_int_equal(o.count, 1);
	assert_int_equal(o.status, TIDE_ESHUTDOWN);
	user_change_deinit(&r->changes);
	assert_int_equal(o.count, 2);
	assert_null(users_find(&r->users, SLICE("alice"))->password);
}

TEST_THAT(the_last_user_stays_where_others_reach_the_broker)
{
	struct rig *r = *state;
	struct outcome o = { 0 };
	struct user_change_spec spec = spec_of(USER_CHANGE_DELETE, "alice", &o);

	spec.author = add_admin(r, "alice");
	r->changes.must_have_users = true;
	user_change_start(&r->changes, &spec);
	assert_int_equal(o.status, TIDE_EDENIED);
	r->changes.must_have_users = false;
	user_change_start(&r->changes, &spec);
	assert_int_equal(o.status, TIDE_OK);
	assert_int_equal(users_count(&r->users), 0);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
