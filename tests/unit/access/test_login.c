#include "check.h"

#include "access/login.h"
#include "host/log.h"

/* scrypt with a small cost, of the password "right". */
struct rig {
	uv_loop_t loop;
	struct password_work work;
	struct users users;
	struct login login;
	int64_t now_ms;
	char hash[PASSWORD_TEXT_MAX];
};

struct outcome {
	unsigned count;
	struct user *user;
	struct error err;
};

static void on_done(void *ctx, struct user *user, const struct error *err)
{
	struct outcome *o = ctx;

	o->count++;
	o->user = user;
	if (err)
		o->err = *err;
}

static int setup(void **state)
{
	static struct rig rig;
	struct error err;
	struct user *u = user_create(SLICE("bob"));

	log_configure(LOG_ERROR, false);
	rig = (struct rig){ .now_ms = 1000 };
	assert_int_equal(uv_loop_init(&rig.loop), 0);
	password_work_init(&rig.work, &rig.loop);
	login_init(&rig.login, &rig.users, &rig.work);
	assert_int_equal(password_hash(SLICE("right"), rig.hash, &err), TIDE_OK);
	u->password = strdup(rig.hash);
	users_put_take(&rig.users, u);
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

	password_work_close(&r->work, on_closed, &closed);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(closed, 1);
	login_deinit(&r->login);
	users_deinit(&r->users);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	return 0;
}

static struct login_attempt *start(struct rig *r, const char *user, const char *password,
				   struct outcome *o)
{
	const struct login_spec spec = {
		.user = slice_from(user),
		.password = slice_from(password),
		.address = "192.0.2.7:50412",
		.on_done = on_done,
		.ctx = o,
	};

	return login_start(&r->login, &spec, r->now_ms);
}

/* Threads end their work; time does not pass. */
static void settle(struct rig *r)
{
	while (r->work.running > 0)
		uv_run(&r->loop, UV_RUN_ONCE);
	login_turn(&r->login, r->now_ms);
}

static void assert_accepted(struct outcome *o, const char *name)
{
	assert_int_equal(o->count, 1);
	assert_non_null(o->user);
	assert_string_equal(o->user->name, name);
	user_unref(o->user);
	*o = (struct outcome){ 0 };
}

static void assert_refused(struct outcome *o)
{
	assert_int_equal(o->count, 1);
	assert_null(o->user);
	assert_int_equal(o->err.code, TIDE_EDENIED);
	assert_string_equal(o->err.text, "the user or the password is wrong");
	*o = (struct outcome){ 0 };
}

TEST_THAT(a_right_password_is_verified_once)
{
	struct rig *r = *state;
	struct outcome o = { 0 };

	assert_non_null(start(r, "bob", "right", &o));
	assert_int_equal(o.count, 0);
	settle(r);
	assert_accepted(&o, "bob");
	for (int i = 0; i < 10000; i++) {
		assert_null(start(r, "bob", "right", &o));
		assert_accepted(&o, "bob");
	}
	assert_int_equal(r->work.count, 1);
	assert_int_equal(r->login.counters.accepted, 10001);
	assert_int_equal(r->login.counters.remembered, 10000);
}

TEST_THAT(what_was_remembered_ends_with_the_password)
{
	struct rig *r = *state;
	struct outcome o = { 0 };
	struct user *u;

	start(r, "bob", "right", &o);
	settle(r);
	assert_accepted(&o, "bob");
	u = user_create(SLICE("bob"));
	u->password = strdup(password_of_nobody);
	users_put_take(&r->users, u);
	assert_non_null(start(r, "bob", "right", &o));
	settle(r);
	r->now_ms += 250;
	settle(r);
	assert_refused(&o);
}

TEST_THAT(many_at_once_cost_one_verification)
{
	struct rig *r = *state;
	struct outcome o[100] = { { 0 } };

	for (size_t i = 0; i < COUNT(o); i++)
		start(r, "bob", "right", &o[i]);
	settle(r);
	for (size_t i = 0; i < COUNT(o); i++)
		assert_accepted(&o[i], "bob");
	assert_int_equal(r->work.count, 1);
}

TEST_THAT(what_is_wrong_is_told_late_and_later_each_time)
{
	static const int64_t delays[] = { 250, 500, 1000 };
	struct rig *r = *state;
	struct outcome o = { 0 };

	for (size_t i = 0; i < COUNT(delays); i++) {
		start(r, "bob", "wrong", &o);
		settle(r);
		r->now_ms += delays[i] - 1;
		settle(r);
		assert_int_equal(o.count, 0);
		assert_int_equal(login_due_ms(&r->login), r->now_ms + 1);
		r->now_ms++;
		settle(r);
		assert_refused(&o);
	}
	assert_int_equal(r->login.counters.refused, 3);
}

TEST_THAT(an_unknown_user_costs_and_is_told_the_same)
{
	struct rig *r = *state;
	struct outcome o = { 0 };

	start(r, "nobody", "right", &o);
	assert_int_equal(r->work.running, 1);
	settle(r);
	assert_int_equal(o.count, 0);
	r->now_ms += 250;
	settle(r);
	assert_refused(&o);
}

TEST_THAT(an_address_that_failed_is_not_verified_again_at_once)
{
	struct rig *r = *state;
	struct outcome first = { 0 }, second = { 0 }, known = { 0 };

	start(r, "bob", "right", &known);
	settle(r);
	assert_accepted(&known, "bob");
	start(r, "eve", "wrong", &first);
	start(r, "bob", "wrong", &second);
	assert_int_equal(r->work.running, 1);
	settle(r);
	assert_int_equal(r->work.running, 0);
	/* Who is known need not wait for it. */
	assert_null(start(r, "bob", "right", &known));
	assert_accepted(&known, "bob");
	r->now_ms += 250;
	login_turn(&r->login, r->now_ms);
	assert_refused(&first);
	assert_int_equal(r->work.running, 1);
	settle(r);
	r->now_ms += 500;
	settle(r);
	assert_refused(&second);
}

TEST_THAT(a_certificate_needs_no_password)
{
	struct rig *r = *state;
	struct outcome o = { 0 };
	struct login_spec spec = { .certificate = "bob",
				   .is_certificate_user = true,
				   .on_done = on_done,
				   .ctx = &o };

	assert_null(login_start(&r->login, &spec, r->now_ms));
	assert_accepted(&o, "bob");
	spec.user = SLICE("bob");
	assert_null(login_start(&r->login, &spec, r->now_ms));
	assert_accepted(&o, "bob");
	spec.is_certificate_user = false;
	assert_non_null(login_start(&r->login, &spec, r->now_ms));
	r->now_ms += 250;
	settle(r);
	assert_refused(&o);
	spec.is_certificate_user = true;
	spec.certificate = "eve";
	assert_non_null(login_start(&r->login, &spec, r->now_ms));
	r->now_ms += 1000;
	settle(r);
	assert_refused(&o);
	assert_int_equal(r->work.count, 0);
}

TEST_THAT(one_that_is_cancelled_is_told_nothing)
{
	struct rig *r = *state;
	struct outcome o = { 0 };
	struct login_attempt *a = start(r, "bob", "right", &o), *b;

	b = start(r, "bob", "wrong", &o);
	login_cancel(a);
	login_cancel(b);
	settle(r);
	a = start(r, "bob", "wrong", &o);
	settle(r);
	login_cancel(a);
	r->now_ms += 1000;
	settle(r);
	assert_int_equal(o.count, 0);
	assert_int_equal(login_due_ms(&r->login), 0);
}

TEST_THAT(a_user_who_is_deleted_meanwhile_is_refused)
{
	struct rig *r = *state;
	struct outcome o = { 0 };

	start(r, "bob", "right", &o);
	assert_true(users_remove(&r->users, SLICE("bob")));
	settle(r);
	r->now_ms += 250;
	settle(r);
	assert_refused(&o);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
