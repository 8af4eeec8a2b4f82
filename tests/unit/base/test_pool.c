#include "check.h"

#include "base/mem.h"

TEST_THAT(an_object_comes_again)
{
	struct pool p;
	pool_init(&p, 32, 4);
	char *first = pool_take(&p);
	memset(first, 0x55, 32);
	pool_give(&p, first);
	char *again = pool_take(&p);
	if (!POOL_KEEPS_NOTHING)
		assert_ptr_equal(again, first);
	memset(again, 0xaa, 32);
	pool_give(&p, again);
	pool_deinit(&p);
}

TEST_THAT(no_more_is_kept_than_was_asked_for)
{
	void *objects[10];
	struct pool p;
	pool_init(&p, 64, 3);
	for (size_t i = 0; i < COUNT(objects); i++)
		objects[i] = pool_take(&p);
	for (size_t i = 0; i < COUNT(objects); i++)
		pool_give(&p, objects[i]);
	assert_int_equal(p.free_count, p.keep_max); /* 0 under AddressSanitizer */
	pool_give(&p, NULL);
	assert_int_equal(p.free_count, p.keep_max);
	pool_deinit(&p);
	assert_int_equal(p.free_count, 0);
}

TEST_THAT(objects_smaller_than_a_pointer_work)
{
	struct pool p;
	pool_init(&p, 1, 8);
	char *a = pool_take(&p);
	char *b = pool_take(&p);
	assert_ptr_not_equal(a, b);
	pool_give(&p, a);
	pool_give(&p, b);
	a = pool_take(&p);
	if (!POOL_KEEPS_NOTHING)
		assert_ptr_equal(a, b);
	pool_give(&p, a);
	pool_deinit(&p);
}

RUN_TESTS()
