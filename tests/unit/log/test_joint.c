/* A joint of a partition over a real Redis: all of it, in its place, or nothing. */
#include "partition_rig.h"

#include "log/partition.h"

static struct batch_result answer;
static bool is_answered;

static void on_answer(void *ctx, const struct batch_result *result)
{
	struct joint *j = ctx;

	answer = *result;
	is_answered = true;
	joint_end_take(j, result->written, result->text);
}

/* What is published until joint_seal is the joint's. */
static struct joint *build(unsigned count, size_t len)
{
	struct joint *j = joint_create(r.p);

	while (count-- > 0)
		rig_publish(len);
	joint_seal(j);
	return j;
}

static void send_it(struct joint *j)
{
	struct store_transaction *t = store_transaction_begin(r.h.store);

	is_answered = false;
	assert_true(joint_send(j, t) > 0);
	store_transaction_commit_take(t, on_answer, j);
}

TEST_THAT(it_stands_between_what_comes_before_and_behind)
{
	struct pub *before = rig_publish(100), *behind;
	struct joint *j = build(3, 100);

	behind = rig_publish(100);
	assert_int_equal(behind->offset, 4);
	assert_false(joint_is_ready(j));
	partition_flush(&r.env);
	WAIT(&r.h, before->is_told);
	assert_true(joint_is_ready(j));
	rig_turn();
	assert_int_equal(flights(&r.env), 0);
	send_it(j);
	rig_turn();
	assert_int_equal(flights(&r.env), 0);
	WAIT(&r.h, is_answered);
	assert_int_equal(answer.written, TIDE_OK);
	assert_int_equal(partition_readable(r.p), 4);
	rig_settle();
	assert_int_equal(behind->status, TIDE_OK);
	rig_expect_all_from(0);
	assert_int_equal(rig_recover(), TIDE_OK);
	rig_expect_all_from(0);
}

TEST_THAT(it_may_be_several_appends_and_the_first_of_a_day)
{
	struct joint *j = build(6000, 1000);
	char text[32];

	send_it(j);
	WAIT(&r.h, is_answered);
	assert_int_equal(partition_readable(r.p), 6000);
	snprintf(text, sizeof(text), "0 0 %lld", (long long)NOON_MS);
	assert_text(&r.h, "HGET tide:{//orders#3}:log 20261123", text);
	assert_int_equal(rig_recover(), TIDE_OK);
	rig_expect_all_from(0);
}

TEST_THAT(what_redis_refuses_fails_with_all_behind_it)
{
	struct joint *j;

	rig_publish_all(1, 100);
	j = build(2, 100);
	rig_publish(100);
	tell(&r.h, "CONFIG SET maxmemory 1");
	send_it(j);
	WAIT(&r.h, is_answered);
	assert_true(answer.written < 0);
	assert_int_equal(r.refused, 3);
	assert_int_equal(partition_end(r.p), 1);
	tell(&r.h, "CONFIG SET maxmemory 0");
	rig_publish_all(2, 100);
	rig_expect_all_from(0);
}

TEST_THAT(it_fails_with_what_is_refused_before_it)
{
	struct joint *j;

	tell(&r.h, "CONFIG SET maxmemory 1");
	rig_publish(100);
	j = build(2, 100);
	assert_int_equal(joint_status(j), TIDE_OK);
	partition_flush(&r.env);
	WAIT(&r.h, r.refused == 3);
	assert_true(joint_status(j) < 0);
	assert_false(joint_is_ready(j));
	joint_end_take(j, joint_status(j), NULL);
	tell(&r.h, "CONFIG SET maxmemory 0");
	rig_publish_all(1, 100);
	rig_expect_all_from(0);
}

TEST_THAT(it_may_end_unsent_and_leaves_what_is_before_it)
{
	struct pub *flying = rig_publish(100), *before;
	struct joint *j;

	partition_flush(&r.env);
	before = rig_publish(100);
	j = build(2, 100);
	rig_publish(100);
	joint_end_take(j, TIDE_ESTORE, "refused elsewhere");
	assert_int_equal(r.refused, 3);
	assert_int_equal(partition_end(r.p), 2);
	rig_publish(100);
	rig_settle();
	assert_int_equal(flying->status, TIDE_OK);
	assert_int_equal(before->status, TIDE_OK);
	assert_int_equal(partition_readable(r.p), 3);
	rig_expect_all_from(0);
	assert_int_equal(rig_recover(), TIDE_OK);
	rig_expect_all_from(0);
}

TEST_THAT(a_partition_may_be_closed_meanwhile)
{
	struct joint *j = build(3000, 1000);

	rig_publish(100);
	send_it(j);
	partition_close(r.p);
	WAIT(&r.h, is_answered);
	assert_int_equal(r.told, 3001);
	assert_int_equal(r.refused, 3001);
	rig_new_partition();
}

RUN_TESTS(.setup = rig_setup, .teardown = rig_teardown)
