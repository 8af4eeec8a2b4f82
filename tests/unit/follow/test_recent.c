#include "check.h"

#include "base/mem.h"
#include "broker/decide.h"
#include "follow/recent.h"
#include "broker/vhost.h"

static struct vhost vhost = { .refs = 1 };
static struct broker broker;

static struct msg *make(const char *key, size_t payload_len)
{
	struct msg spec = { .key = slice_from(key), .payload_len = payload_len };
	struct msg *m = msg_create(&spec);

	assert_non_null(m);
	memset(msg_payload_room(m), 'x', payload_len);
	return m;
}

static void add(struct recent *r, const char *key, size_t payload_len)
{
	struct msg *m = make(key, payload_len);
	struct decide_spec spec = { .vhost = &vhost, .msg = m };
	struct decision none = { .copy_count = 0 };

	broker.followers = (struct followers){ 0 };
	recent_watch(r, &broker);
	step_tell(
		&broker.followers,
		&(struct step){ .kind = STEP_DECIDED, .spec = &spec, .decision = &none });
	msg_unref(m);
}

TEST_THAT(the_oldest_go_when_it_is_full)
{
	struct recent *r = recent_create(false);
	char key[16];

	for (int i = 1; i <= RECENT_MAX + 5; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		add(r, key, 10);
	}
	assert_int_equal(recent_count(r), RECENT_MAX);
	assert_slice(recent_get(r, 0)->msg->key, "k6");
	assert_int_equal(recent_get(r, 0)->number, 6);
	assert_int_equal(recent_get(r, RECENT_MAX - 1)->number, RECENT_MAX + 5);
	assert_int_equal(vhost.refs, 1 + RECENT_MAX);
	recent_destroy(r);
	assert_int_equal(vhost.refs, 1);
}

TEST_THAT(a_large_payload_is_not_kept_alive)
{
	struct recent *r = recent_create(false);

	for (int i = 0; i < 20; i++)
		add(r, "big", (size_t)3 << 20);
	assert_int_equal(recent_count(r), 20);
	assert_int_equal(recent_get(r, 0)->size, 3 << 20);
	assert_int_equal(recent_get(r, 0)->msg->payload_len, 0);
	assert_true(recent_bytes(r) < 20000);
	recent_destroy(r);
}

TEST_THAT(bytes_are_bounded_with_payloads_too)
{
	struct recent *r = recent_create(true);

	for (int i = 0; i < 100; i++)
		add(r, "big", 500000);
	assert_true(recent_bytes(r) <= RECENT_BYTES);
	assert_true(recent_count(r) > 10 && recent_count(r) < 20);
	add(r, "huge", (size_t)50 << 20);
	assert_true(recent_bytes(r) <= RECENT_BYTES);
	recent_destroy(r);
}

TEST_THAT(a_script_sees_the_payload_only_where_it_is_kept)
{
	struct recent *without = recent_create(false), *with = recent_create(true);
	struct recent_record *copy;
	size_t count;

	add(without, "k", 5);
	copy = recent_copy(without, &count);
	assert_int_equal(count, 1);
	assert_int_equal(copy[0].msg->payload_len, 0);
	assert_slice(copy[0].msg->key, "k");
	recent_free(copy, count);
	add(with, "k", 5);
	copy = recent_copy(with, &count);
	assert_int_equal(copy[0].msg->payload_len, 5);
	recent_free(copy, count);
	recent_destroy(without);
	recent_destroy(with);
	assert_int_equal(vhost.refs, 1);
}

/* ---- verdicts ---------------------------------------------------------------------- */

static void target(struct verdict *v, uint64_t queue, uint32_t shard, double rank)
{
	struct verdict_target *t = verdict_add(v, queue);

	if (t) {
		t->shard = shard;
		t->rank = rank;
	}
}

TEST_THAT(the_order_of_queues_is_no_difference)
{
	struct verdict a, b;

	verdict_init(&a, TIDE_OK);
	verdict_init(&b, TIDE_OK);
	target(&a, 1, 0, 5);
	target(&a, 2, 3, 7);
	target(&b, 2, 3, 7);
	target(&b, 1, 0, 5);
	assert_int_equal(verdict_compare(&a, &b), VERDICT_SAME);
	b.targets[0].shard = 1;
	b.targets[1].rank = 6;
	assert_int_equal(verdict_compare(&a, &b), VERDICT_SHARD | VERDICT_RANK);
	b.targets[0].is_shard_telling = b.targets[1].is_rank_telling = false;
	assert_int_equal(verdict_compare(&a, &b), VERDICT_SAME);
}

TEST_THAT(copies_in_one_queue_are_compared_in_their_order)
{
	struct verdict a, b;

	verdict_init(&a, TIDE_OK);
	verdict_init(&b, TIDE_OK);
	for (uint32_t i = 0; i < 3; i++) {
		target(&a, 1, i, i);
		target(&b, 1, i, i);
	}
	assert_int_equal(verdict_compare(&a, &b), VERDICT_SAME);
}

TEST_THAT(more_queues_than_are_told_apart_still_count)
{
	struct verdict a, b;

	verdict_init(&a, TIDE_OK);
	verdict_init(&b, TIDE_OK);
	for (uint64_t i = 1; i <= 20; i++) {
		target(&a, i, 0, 0);
		target(&b, 21 - i, 0, 0);
	}
	assert_int_equal(verdict_compare(&a, &b), VERDICT_SAME);
	b.sum++;
	assert_int_equal(verdict_compare(&a, &b), VERDICT_QUEUES);
}

TEST_THAT(a_refusal_differs_from_anything_else)
{
	struct verdict a, b;

	verdict_init(&a, TIDE_OK);
	verdict_init(&b, TIDE_ERULE);
	assert_int_equal(verdict_compare(&a, &b), VERDICT_ERROR);
	verdict_init(&a, TIDE_ERULE);
	assert_int_equal(verdict_compare(&a, &b), VERDICT_SAME);
	verdict_init(&a, TIDE_EREJECTED);
	assert_int_equal(verdict_compare(&a, &b), VERDICT_ERROR);
}

RUN_TESTS()
