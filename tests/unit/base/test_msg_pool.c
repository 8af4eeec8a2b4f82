#include "base/mem.h"
#include "base/msg.h"
#include "check.h"

#include "failing_mem.h"

static struct msg *take(struct msg_pool *p, size_t payload_len)
{
	const struct msg like = { .payload_len = payload_len, .pool = p };
	struct msg *m = msg_create(&like);

	assert_non_null(m);
	memset(msg_payload_room(m), 'x', payload_len);
	return m;
}

TEST_THAT(a_block_has_the_size_asked_for_and_comes_again)
{
	struct msg_pool p = { .kept_bytes = 0 };

	for (size_t len = 0; len <= MSG_POOL_BLOCK_MAX - sizeof(struct msg); len++) {
		struct msg *m = take(&p, len), *next;
		size_t bytes = m->bytes;

		assert_int_equal(bytes % MSG_POOL_STEP, 0);
		assert_in_range(bytes, sizeof(*m) + len,
				sizeof(*m) + len + MSG_POOL_STEP - 1);
		msg_unref(m);
		next = take(&p, len);
		assert_int_equal(next->bytes, bytes);
		if (!POOL_KEEPS_NOTHING)
			assert_ptr_equal(next, m);
		msg_unref(next);
	}
	msg_pool_deinit(&p);
	assert_int_equal(p.kept_bytes, 0);
}

TEST_THAT(a_large_block_is_not_kept)
{
	struct msg_pool p = { .kept_bytes = 0 };
	struct msg *m = take(&p, MSG_POOL_BLOCK_MAX);

	assert_int_equal(m->bytes, sizeof(*m) + MSG_POOL_BLOCK_MAX);
	msg_unref(m);
	assert_int_equal(p.kept_bytes, 0);
	msg_pool_deinit(&p);
}

TEST_THAT(only_so_much_is_kept)
{
	static struct msg *msgs[MSG_POOL_KEEP_BYTES / MSG_POOL_BLOCK_MAX + 10];
	struct msg_pool p = { .kept_bytes = 0 };

	for (size_t i = 0; i < COUNT(msgs); i++)
		msgs[i] = take(&p, MSG_POOL_BLOCK_MAX - sizeof(struct msg));
	for (size_t i = 0; i < COUNT(msgs); i++) {
		msg_unref(msgs[i]);
		assert_in_range(p.kept_bytes, 0, MSG_POOL_KEEP_BYTES);
	}
	if (!POOL_KEEPS_NOTHING)
		assert_int_equal(p.kept_bytes, MSG_POOL_KEEP_BYTES);
	msg_pool_deinit(&p);
}

TEST_THAT(a_message_goes_back_to_its_pool)
{
	struct msg_pool p = { .kept_bytes = 0 };
	struct msg like = {
		.key = SLICE("k"), .payload = "hello", .payload_len = 5, .pool = &p
	};
	struct msg *m = msg_create(&like);

	assert_memory_equal(m->payload, "hello", 5);
	msg_unref(m);
	assert_int_equal(p.kept_bytes > 0, !POOL_KEEPS_NOTHING);
	msg_pool_deinit(&p);
	mem_fail_at = 1;
	assert_null(msg_create(&like));
	mem_fail_at = 0;
}

RUN_TESTS()
