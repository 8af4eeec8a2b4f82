#include "base/msg_pool.h"

#include "base/mem.h"
#include "base/msg.h"
#include "base/pool.h"
#include "check.h"

#include "failing_mem.h"

static void a_block_has_the_size_asked_for_and_comes_again(void **state)
{
	struct msg_pool p;

	msg_pool_init(&p);
	for (size_t asked = 1; asked <= MSG_POOL_BLOCK_MAX; asked++) {
		size_t bytes = asked, again = asked;
		char *block = msg_pool_try_take(&p, &bytes), *next;

		assert_in_range(bytes, asked, asked + MSG_POOL_STEP - 1);
		memset(block, 'x', bytes);
		msg_pool_give(&p, block, bytes);
		next = msg_pool_try_take(&p, &again);
		assert_int_equal(again, bytes);
		if (!POOL_KEEPS_NOTHING)
			assert_ptr_equal(next, block);
		msg_pool_give(&p, next, again);
	}
	msg_pool_deinit(&p);
	assert_int_equal(p.kept_bytes, 0);
}

static void a_large_block_is_not_kept(void **state)
{
	size_t bytes = MSG_POOL_BLOCK_MAX + 1;
	struct msg_pool p;

	msg_pool_init(&p);
	msg_pool_give(&p, msg_pool_try_take(&p, &bytes), bytes);
	assert_int_equal(bytes, MSG_POOL_BLOCK_MAX + 1);
	assert_int_equal(p.kept_bytes, 0);
	msg_pool_deinit(&p);
}

static void only_so_much_is_kept(void **state)
{
	static void *blocks[MSG_POOL_KEEP_BYTES / MSG_POOL_BLOCK_MAX + 10];
	size_t bytes = MSG_POOL_BLOCK_MAX;
	struct msg_pool p;

	msg_pool_init(&p);
	for (size_t i = 0; i < COUNT(blocks); i++)
		blocks[i] = msg_pool_try_take(&p, &bytes);
	for (size_t i = 0; i < COUNT(blocks); i++) {
		msg_pool_give(&p, blocks[i], bytes);
		assert_in_range(p.kept_bytes, 0, MSG_POOL_KEEP_BYTES);
	}
	if (!POOL_KEEPS_NOTHING)
		assert_int_equal(p.kept_bytes, MSG_POOL_KEEP_BYTES);
	msg_pool_deinit(&p);
}

static void a_message_goes_back_to_its_pool(void **state)
{
	struct msg_pool p;
	struct msg spec = { .key = SLICE("k"),
				 .payload = "hello",
				 .payload_len = 5 };
	struct msg *m;

	msg_pool_init(&p);
	spec.pool = &p;
	m = msg_create(&spec);
	assert_int_equal(m->bytes % MSG_POOL_STEP, 0);
	assert_memory_equal(m->payload, "hello", 5);
	msg_unref(m);
	assert_int_equal(p.kept_bytes > 0, !POOL_KEEPS_NOTHING);
	msg_pool_deinit(&p);
	mem_fail_at = 1;
	assert_null(msg_create(&spec));
	mem_fail_at = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_has_the_size_asked_for_and_comes_again),
		cmocka_unit_test(a_large_block_is_not_kept),
		cmocka_unit_test(only_so_much_is_kept),
		cmocka_unit_test(a_message_goes_back_to_its_pool),
	};
	return cmocka_run_group_tests_name("base/msg_pool", tests, NULL, NULL);
}
