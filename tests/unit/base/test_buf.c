#include "check.h"

#include <errno.h>

#include "failing_mem.h"

TEST_THAT(a_new_buffer_is_empty_and_owns_nothing)
{
	struct buf b = { 0 };
	assert_int_equal(buf_len(&b), 0);
	assert_null(b.data);
	assert_int_equal(buf_slice(&b).len, 0);
	assert_buf(&b, "");
	buf_deinit(&b);
	buf_deinit(&b);
}

TEST_THAT(everything_appends_in_order)
{
	struct buf b = { 0 };
	buf_append_text(&b, "OK ");
	buf_append_uint(&b, 0);
	buf_append_char(&b, ' ');
	buf_append_uint(&b, UINT64_MAX);
	buf_append(&b, NULL, 0);
	buf_append_slice(&b, SLICE(" a\r\n"));
	buf_printf(&b, "%s=%d", "x", -1);
	assert_buf(&b, "OK 0 18446744073709551615 a\r\nx=-1");
	buf_deinit(&b);
}

TEST_THAT(one_is_singular_and_none_is_many)
{
	struct buf b = { 0 };
	for (unsigned n = 0; n < 3; n++)
		buf_append_count(&b, n, "byte");
	assert_buf(&b, "0 bytes1 byte2 bytes");
	buf_deinit(&b);
}

TEST_THAT(printf_of_any_length_fits)
{
	char text[1000];
	memset(text, 'y', sizeof(text));
	for (int len = 0; len < (int)sizeof(text); len++) {
		struct buf b = { 0 };
		buf_append_char(&b, '<');
		buf_printf(&b, "%.*s>", len, text);
		assert_int_equal(buf_len(&b), len + 2);
		assert_int_equal(b.data[b.end - 1], '>');
		buf_deinit(&b);
	}
}

TEST_THAT(bytes_come_out_in_the_order_they_went_in)
{
	struct buf b = { 0 };
	uint8_t in = 0, out = 0;
	for (size_t step = 1; step < 2000; step++) {
		for (size_t i = 0; i < step % 97; i++)
			buf_append_char(&b, (char)in++);
		size_t take = step % 89 < buf_len(&b) ? step % 89 : buf_len(&b);
		for (size_t i = 0; i < take; i++)
			assert_int_equal((uint8_t)b.data[b.start + i], out++);
		buf_consume(&b, take);
	}
	buf_deinit(&b);
}

TEST_THAT(a_steady_flow_does_not_grow_the_buffer)
{
	struct buf b = { 0 };
	char block[100] = { 0 };
	for (int i = 0; i < 10000; i++) {
		buf_append(&b, block, sizeof(block));
		if (buf_len(&b) > 500)
			buf_consume(&b, 100);
	}
	assert_true(b.cap <= 4096);
	buf_deinit(&b);
}

TEST_THAT(an_emptied_buffer_starts_at_its_front_again)
{
	struct buf b = { 0 };
	buf_append_text(&b, "hello");
	buf_consume(&b, 5);
	assert_int_equal(b.start, 0);
	assert_int_equal(b.end, 0);
	assert_non_null(b.data);
	buf_shrink(&b);
	assert_null(b.data);
	buf_append_text(&b, "more");
	buf_shrink(&b);
	assert_buf(&b, "more");
	buf_deinit(&b);
}

TEST_THAT(reserve_gives_room_and_grow_takes_it)
{
	struct buf b = { 0 };
	assert_non_null(buf_reserve(&b, 0));
	char *at = buf_reserve(&b, 300);
	memset(at, 'z', 300);
	buf_grow(&b, 300);
	assert_int_equal(buf_len(&b), 300);
	buf_deinit(&b);
}

TEST_THAT(a_size_that_no_memory_holds_is_refused)
{
	struct buf b = { 0 };
	buf_append_text(&b, "kept");
	assert_int_equal(buf_try_reserve(&b, SIZE_MAX), -ENOMEM);
	assert_int_equal(buf_try_reserve(&b, SIZE_MAX - 3), -ENOMEM);
	assert_buf(&b, "kept");
	buf_deinit(&b);
}

TEST_THAT(a_failed_reserve_leaves_the_content)
{
	struct buf b = { 0 };
	mem_fail_at = 1;
	assert_int_equal(buf_try_reserve(&b, 10), -ENOMEM);
	buf_append_text(&b, "drop,kept");
	buf_consume(&b, 5);
	mem_fail_at = 1;
	assert_int_equal(buf_try_reserve(&b, 100000), -ENOMEM);
	assert_buf(&b, "kept");
	assert_int_equal(buf_try_reserve(&b, 100000), TIDE_OK);
	assert_buf(&b, "kept");
	buf_deinit(&b);
}

RUN_TESTS()
